//! Inputs of a rank, in pieces from the first rank.

use std::io;

use parallax_ir::{BufferSpec, Inputs};
use parallax_schema::case::DType;

use super::wire::PIECE;

/// Returns the buffers of a rank that have inputs: position, bytes, and bytes of an element.
fn filled(specs: &[BufferSpec], dtype: DType) -> impl Iterator<Item = (usize, u64, u64)> {
    let of_rank = move |(at, spec): (usize, &BufferSpec)| {
        spec.role.fill()?;
        Some((at, spec.of_rank().bytes(dtype).0, spec.elem.storage(dtype).bytes()))
    };
    specs.iter().enumerate().filter_map(of_rank)
}

/// Calls `send` with the inputs of a rank, piece by piece. `specs` are the buffers of the case or of the rank.
///
/// # Errors
/// Those of `send`.
pub(super) fn pieces(
    own: &Inputs,
    (specs, dtype): (&[BufferSpec], DType),
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    for (buffer, size, element) in filled(specs, dtype) {
        let mut piece = vec![0; PIECE.min(size) as usize];
        let mut offset = 0;
        while offset < size {
            let part = &mut piece[..PIECE.min(size - offset) as usize];
            own.write(buffer, offset / element, part);
            send(part)?;
            offset += part.len() as u64;
        }
    }
    Ok(())
}

/// Replaces the inputs of a rank by pieces that `receive` returns. Its argument is the length.
///
/// # Errors
/// Those of `receive`; a piece of another length.
pub(super) fn assemble(
    own: &mut Inputs,
    (specs, dtype): (&[BufferSpec], DType),
    mut receive: impl FnMut(u64) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    for (buffer, size, _) in filled(specs, dtype) {
        let mut all = Vec::new();
        while (all.len() as u64) < size {
            let want = PIECE.min(size - all.len() as u64);
            let piece = receive(want)?;
            if piece.len() as u64 != want {
                let why = format!("an input came in a piece of {} bytes, not {want}", piece.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            all.extend(piece);
        }
        own.replace(buffer, all).map_err(io::Error::other)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::{Axis, Elem, Place, Shape, normal};

    /// Inputs of two ranks, of which `a` has more than one piece.
    fn made() -> (Inputs, Vec<BufferSpec>, Shape) {
        const AXES: &[Axis] = &[Axis::extent("n", "elements")];
        let shape = Shape::parse(AXES, "n5").expect("valid");
        let spec = |name, len| BufferSpec::input(name, Elem::Real, &[2, len], normal).at(Place::EachRank);
        let specs = vec![spec("a", PIECE / 2 + 3), BufferSpec::scratch("b", Elem::Real, &[7]), spec("c", 5)];
        (Inputs::seeded(&shape, DType::F16, specs.clone(), 3), specs, shape)
    }

    #[test]
    fn a_rank_assembles_its_own_rows() {
        let (inputs, specs, shape) = made();
        let of = (&specs[..], DType::F16);
        assert_eq!(filled(of.0, of.1).collect::<Vec<_>>(), [(0, PIECE + 6, 2), (2, 10, 2)]);
        let (own, mut sent) = (inputs.of_rank(1), Vec::new());
        pieces(&own, of, |piece| {
            sent.push(piece.to_vec());
            Ok(())
        })
        .expect("memory");
        assert_eq!(sent.iter().map(|piece| piece.len() as u64).collect::<Vec<_>>(), [PIECE, 6, 10]);
        let own_specs = specs.iter().map(BufferSpec::of_rank).collect();
        let mut other = Inputs::seeded(&shape, DType::F16, own_specs, 0);
        let mut coming = sent.into_iter();
        assemble(&mut other, of, |_| Ok(coming.next().expect("a piece"))).expect("whole");
        for (buffer, at) in [(0, 0), (0, PIECE / 2 - 1), (0, PIECE / 2 + 2), (2, 4)] {
            assert_eq!(other.at(buffer, at), own.at(buffer, at), "element {at} of buffer {buffer}");
        }
        let short = assemble(&mut other, of, |_| Ok(vec![0; 7]));
        assert!(short.is_err_and(|why| why.to_string().contains("7 bytes, not")));
    }
}
