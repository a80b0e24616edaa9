// Stretches scanned in pieces of four elements.

#import lib/pieces4
#import scan/tiles

// The sums within a piece up to each of its elements, and before each; and the sum of all.
fn upto(x: piece) -> piece {
    let two = x.x + x.y;
    let three = two + x.z;
    return piece(x.x, two, three, three + x.w);
}

fn below(sums: piece) -> piece {
    return piece(0.0, sums.x, sums.y, sums.z);
}

fn whole(sums: piece) -> f32 {
    return sums.w;
}
