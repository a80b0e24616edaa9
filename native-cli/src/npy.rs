//! Arrays in NumPy's format.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use parallax_ir::BufferSpec;
use parallax_schema::case::Storage;

/// Returns NumPy's type strings of a storage type; the first is used for output. NumPy has no bfloat16: its bits are
/// stored as uint16. Arrays of the package ml_dtypes are saved as a void type of two bytes.
fn type_strings(storage: Storage) -> &'static [&'static str] {
    match storage {
        Storage::F32 => &["<f4"],
        Storage::F16 => &["<f2"],
        Storage::BF16 => &["<u2", "|V2", "<V2"],
        Storage::U32 => &["<u4"],
    }
}

/// Returns the NumPy expression that converts an array to an input's type. It never converts bits as numbers, or
/// numbers as bits. `x.astype('uint16')` of float32 would do both.
fn remedy(got: &str, storage: Storage) -> String {
    let bits = |got: &str| matches!(got.trim_start_matches(['<', '|', '=']), "V2" | "i2");
    match storage {
        Storage::BF16 if bits(got) => "where these are the bits of bfloat16, save x.view('<u2')".to_owned(),
        Storage::BF16 => "which are the bits of bfloat16 as uint16: import ml_dtypes, and save \
            numpy.asarray(x, ml_dtypes.bfloat16).view('uint16')"
            .to_owned(),
        Storage::F32 | Storage::F16 if got.ends_with("V2") => {
            let want = type_strings(storage)[0];
            format!("where these are the bits of bfloat16, save x.view(ml_dtypes.bfloat16).astype('{want}')")
        }
        other => format!("save x.astype('{}')", type_strings(other)[0]),
    }
}

/// Reads an array for an input, as little-endian bytes of its elements. `path` is for messages.
pub fn read(mut from: impl Read, path: &Path, spec: &BufferSpec, storage: Storage) -> anyhow::Result<Vec<u8>> {
    let npy = header(&mut from)
        .and_then(|header| Ok(npyz::NpyFile::new(std::io::Cursor::new(header).chain(from))?))
        .with_context(|| format!("{} is not a NumPy array file (numpy.save writes them)", path.display()))?;
    let got = npy.dtype().descr().trim_matches('\'').to_owned();
    let want = type_strings(storage);
    if !want.contains(&got.as_str()) {
        let (path, name, want, remedy) = (path.display(), spec.name, want[0], remedy(&got, storage));
        bail!("{path}: dtype is {got}, input `{name}` needs {want}; {remedy}");
    }
    let untyped = got.ends_with("V2");
    if npy.shape() != spec.dims {
        bail!("{}: shape is {:?}, input `{}` needs {:?}", path.display(), npy.shape(), spec.name, spec.dims);
    }
    if npy.order() != npyz::Order::C && spec.dims.len() > 1 {
        bail!("{}: array is in Fortran order; save numpy.ascontiguousarray of it", path.display());
    }
    match storage {
        Storage::F32 => elements(npy, f32::to_le_bytes),
        Storage::F16 => elements(npy, half::f16::to_le_bytes),
        Storage::BF16 if untyped => elements(npy, |bits: npyz::FixedSizeBytes<2>| bits.0),
        Storage::BF16 => elements(npy, u16::to_le_bytes),
        Storage::U32 => elements(npy, u32::to_le_bytes),
    }
    .with_context(|| format!("{} ends early", path.display()))
}

/// Maximum length of a header, equal to NumPy's own limit. A file of a few bytes can announce 4 GiB, and the parser
/// allocates a header's memory before the read.
const LONGEST_HEADER: u32 = 10_000;
/// Maximum number of opening brackets in a header. An array of plain elements has two. The parser tries two
/// alternatives at each nested bracket, so a few dozen unclosed ones take exponential time.
const MOST_BRACKETS: usize = 8;

/// Reads a file up to the end of its header, or to its own end. The contents are not parsed.
fn header(from: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut header = Vec::new();
    from.take(10).read_to_end(&mut header)?;
    let [0x93, b'N', b'U', b'M', b'P', b'Y', version, _, _, _] = header[..] else { return Ok(header) };
    if version > 1 {
        from.take(2).read_to_end(&mut header)?;
    }
    let length = header[8..].iter().rev().fold(0, |length, byte| length << 8 | u32::from(*byte));
    if length > LONGEST_HEADER {
        bail!("its header would have {length} bytes, the limit is {LONGEST_HEADER}");
    }
    from.take(length.into()).read_to_end(&mut header)?;
    let brackets = header.iter().filter(|byte| b"([{".contains(byte)).count();
    if brackets > MOST_BRACKETS {
        bail!("its header has {brackets} brackets, the limit is {MOST_BRACKETS}");
    }
    Ok(header)
}

/// Returns all elements of an array as little-endian bytes.
fn elements<T: npyz::Deserialize, const N: usize>(
    npy: npyz::NpyFile<impl Read>,
    bytes: fn(T) -> [u8; N],
) -> std::io::Result<Vec<u8>> {
    Ok(npy.into_vec::<T>()?.into_iter().flat_map(bytes).collect())
}

/// Writes an output from little-endian bytes of its elements.
pub fn write(to: impl Write, spec: &BufferSpec, storage: Storage, bytes: &[u8]) -> std::io::Result<()> {
    write_as(to, &spec.dims, storage, bytes)
}

/// Writes an array of these extents from little-endian bytes of its elements.
pub fn write_as(to: impl Write, extents: &[u64], storage: Storage, bytes: &[u8]) -> std::io::Result<()> {
    match storage {
        Storage::F32 => save(to, extents, bytes, f32::from_le_bytes),
        Storage::F16 => save(to, extents, bytes, half::f16::from_le_bytes),
        Storage::BF16 => save(to, extents, bytes, u16::from_le_bytes),
        Storage::U32 => save(to, extents, bytes, u32::from_le_bytes),
    }
}

/// Writes an array from little-endian bytes of its elements.
fn save<T: npyz::AutoSerialize, const N: usize>(
    to: impl Write,
    dims: &[u64],
    bytes: &[u8],
    value: fn([u8; N]) -> T,
) -> std::io::Result<()> {
    use npyz::WriterBuilder;
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(dims).writer(to).begin_nd()?;
    writer.extend(bytes.chunks_exact(N).map(|b| value(b.try_into().expect("chunks of N"))))?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::parse_case;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// The first input of a case of 2 x 2 elements.
    fn input() -> BufferSpec {
        let case = parse_case("attention/fwd/b1,h1,s2,d2/f32/flash").expect("a case");
        case.problem.buffers()[0].clone()
    }

    /// A file of 2 x 2 elements in a type that the writer does not support.
    fn saved(descr: &str, bytes: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 1, 2, 2), }}");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat()
    }

    #[test]
    fn bfloat16_is_taken_as_ml_dtypes_saves_it() {
        let bits: Vec<u8> = [0x3f80u16, 0xc000, 0x7fc0, 0x8000].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        for descr in ["<u2", "|V2", "<V2"] {
            let read = read(&saved(descr, &bits)[..], Path::new("x.npy"), &input(), Storage::BF16).expect(descr);
            assert_eq!(read, bits, "{descr}");
        }
    }

    #[test]
    fn advice_never_takes_numbers_for_bits() {
        const VALUES: &str = "numpy.asarray(x, ml_dtypes.bfloat16).view('uint16')";
        for (descr, storage, advice) in [
            ("<f4", Storage::BF16, VALUES),
            ("<f8", Storage::BF16, VALUES),
            ("<f2", Storage::BF16, VALUES),
            ("<i4", Storage::BF16, VALUES),
            (">u2", Storage::BF16, VALUES),
            ("<i2", Storage::BF16, "x.view('<u2')"),
            (">V2", Storage::BF16, VALUES),
            ("|V2", Storage::F32, "x.view(ml_dtypes.bfloat16).astype('<f4')"),
            ("<V2", Storage::F16, "x.view(ml_dtypes.bfloat16).astype('<f2')"),
            ("<f8", Storage::F32, "save x.astype('<f4')"),
            (">f4", Storage::F32, "save x.astype('<f4')"),
            ("<i8", Storage::U32, "save x.astype('<u4')"),
        ] {
            let said = read(&saved(descr, &[0; 32])[..], Path::new("x.npy"), &input(), storage).expect_err(descr);
            let said = said.to_string();
            assert!(said.contains(&format!("dtype is {descr}")) && said.ends_with(advice), "{descr}: {said}");
            assert!(storage != Storage::BF16 || !said.contains("astype"), "{descr}: {said}");
        }
    }

    const STORAGES: [Storage; 4] = [Storage::F32, Storage::F16, Storage::BF16, Storage::U32];

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Any bits survive, including NaN and negative zero.
        #[test]
        fn arrays_survive_a_round_trip(words in proptest::array::uniform4(any::<u32>()), storage in 0..STORAGES.len()) {
            let (storage, spec) = (STORAGES[storage], input());
            let width = if matches!(storage, Storage::F32 | Storage::U32) { 4 } else { 2 };
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()[..width].to_vec()).collect();
            let mut file = Vec::new();
            write(&mut file, &spec, storage, &bytes).expect("written");
            prop_assert_eq!(&read(&file[..], Path::new("x.npy"), &spec, storage).expect("its own reader"), &bytes);
            let cut = &file[..file.len() - 1];
            prop_assert!(read(cut, Path::new("x.npy"), &spec, storage).is_err(), "an array that ends early");
        }

        /// A header's announced length is limited, and so is its depth.
        #[test]
        fn headers_beyond_measure_are_refused(length in LONGEST_HEADER + 1.., version in 2..4u8, depth in 9..9000usize) {
            let start = |version: u8| [b"\x93NUMPY".as_slice(), &[version, 0]].concat();
            let long = [start(version), length.to_le_bytes().to_vec(), b"\x93NUMPY".to_vec()].concat();
            let text = format!("{{'descr': {} '<f4', 'fortran_order': False, 'shape': (1,[1, ", "[".repeat(depth));
            let deep = [start(1), (text.len() as u16).to_le_bytes().to_vec(), text.into_bytes()].concat();
            for (file, part) in [(long, "bytes, the limit"), (deep, "brackets, the limit")] {
                let said = read(&file[..], Path::new("x.npy"), &input(), Storage::F32).expect_err("refused");
                prop_assert!(format!("{said:#}").contains(part), "{:#}", said);
            }
        }

        /// Arbitrary bytes are refused, or have the input's size.
        #[test]
        fn broken_arrays_are_refused(at in 0..128usize, noise in any::<u8>(), bytes in any::<Vec<u8>>()) {
            let spec = input();
            let mut file = Vec::new();
            write(&mut file, &spec, Storage::F32, &[0; 16]).expect("written");
            file[at] = noise;
            for broken in [file, bytes] {
                if let Ok(read) = read(&broken[..], Path::new("x.npy"), &spec, Storage::F32) {
                    prop_assert_eq!(read.len(), 16);
                }
            }
        }
    }
}
