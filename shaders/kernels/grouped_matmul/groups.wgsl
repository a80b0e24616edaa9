// Groups of rows by the binding `offsets`. Group `g` begins at `offsets[g]`; the first begins at 0, and the last ends at M.

fn begin_of(group: u32) -> u32 {
    if group == 0u {
        return 0u;
    }
    if group >= GROUPS {
        return M;
    }
    return min(offsets[group], M);
}
