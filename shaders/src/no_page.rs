//! What is asked of a page, outside of one: where the code of pages is only checked.

/// Whether the browser offers matrices of a subgroup to a page that asks for them: there is none.
pub async fn offers_matrices() -> bool {
    false
}
