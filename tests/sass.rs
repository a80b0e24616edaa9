//! Machine code of kernels with matrix instructions of warpgroups: counts of these instructions, and no local memory in loops
//! around them.
//!
//! Needs NVRTC and the disassembler, and no GPU: `./x env`, or `PARALLAX_NVDISASM` with the path of `nvdisasm`. Without them the
//! test fails, so that it cannot pass unseen.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use parallax_cuda::source::{KernelSource, assemble_all, embedded};
use parallax_cuda::{Arch, nvrtc};
use parallax_ir::{Case, OpSpec, Problem, Variant, VariantKind, Workload};
use parallax_schema::case::{DType, Preset};
use parallax_schema::device::Dialect;
use parallax_tests::memo::{Key, Memo};
use parallax_workloads::all;

use crate::nvrtc::{caps, compiled, slower};

const ARCH: Arch = Arch::new(9, 0);
/// Instruction of PTX that becomes the matrix instructions.
const PRODUCT: &str = "wgmma.mma_async";
/// Matrix instructions of warpgroups, on floats of 16 bits, on int8 and on floats of 8 bits.
const PRODUCTS: [&str; 3] = ["HGMMA", "IGMMA", "QGMMA"];
/// Loads and stores of local memory, where the compiler spills registers.
const LOCAL: [&str; 2] = ["LDL", "STL"];

/// Begin of a line about a fault.
const FINDING: &str = "  fault: ";

/// A kernel's instructions in order, with their labels.
#[derive(Debug, Default)]
struct Function {
    instructions: Vec<Instruction>,
    /// Index of the instruction behind each label.
    labels: HashMap<String, usize>,
}

/// An instruction.
#[derive(Debug)]
struct Instruction {
    /// Name with its suffixes: `HGMMA.64x128x16.F32.BF16`.
    name: String,
    /// Label to which it branches, if any.
    target: Option<String>,
    /// Whether the next instruction can follow.
    falls_through: bool,
}

impl Instruction {
    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.split('.').next().unwrap_or_default())
    }
}

/// Functions of a disassembler's listing, by name.
fn functions(listing: &str) -> BTreeMap<String, Function> {
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    let mut current = String::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix(".text.").and_then(|line| line.strip_suffix(':')) {
            current = name.to_owned();
            continue;
        }
        let function = functions.entry(current.clone()).or_default();
        if let Some(label) = line.strip_prefix(".L").and_then(|line| line.strip_suffix(':')) {
            function.labels.insert(format!(".L{label}"), function.instructions.len());
        } else if let Some((_, text)) = line.split_once("*/").filter(|(place, _)| place.trim().starts_with("/*")) {
            let predicated = text.trim_start().starts_with('@');
            let mut words = text.split_whitespace().skip(usize::from(predicated));
            let Some(name) = words.next() else { continue };
            // Some branches have their condition as an operand, before the label.
            let ends = name == "EXIT" || name.starts_with("RET.") || text.contains("BRA `(");
            let label =
                text.split_once("`(").and_then(|(_, rest)| rest.split_once(')')).map(|(label, _)| label.to_owned());
            let falls_through = predicated || !ends;
            function.instructions.push(Instruction { name: name.to_owned(), target: label, falls_through });
        }
    }
    functions
}

impl Function {
    /// Counts of the matrix instructions by name.
    fn products(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for instruction in self.instructions.iter().filter(|i| i.is_one_of(&PRODUCTS)) {
            *counts.entry(instruction.name.as_str()).or_default() += 1;
        }
        counts
    }

    /// Index of the instruction to which one branches.
    fn target(&self, at: usize) -> Option<usize> {
        let instruction = &self.instructions[at];
        instruction
            .target
            .as_ref()
            .filter(|_| instruction.is_one_of(&["BRA"]))
            .and_then(|label| self.labels.get(label))
            .copied()
    }

    /// Instructions from which each can be reached in one step.
    fn predecessors(&self) -> Vec<Vec<usize>> {
        let mut predecessors = vec![Vec::new(); self.instructions.len() + 1];
        for (at, instruction) in self.instructions.iter().enumerate() {
            predecessors[at + 1].extend(instruction.falls_through.then_some(at));
            self.target(at).into_iter().for_each(|target| predecessors[target].push(at));
        }
        predecessors
    }

    /// Instructions of each loop. A loop is all that reaches a branch backwards without its target. Code that the compiler moved
    /// behind the function's end also branches backwards, and is no loop: the function's begin reaches it past the target.
    fn loops(&self) -> Vec<BTreeSet<usize>> {
        let predecessors = self.predecessors();
        let of = |last: usize| {
            let first = self.target(last).filter(|first| *first <= last)?;
            let mut body = BTreeSet::from([first]);
            let mut open = vec![last];
            while let Some(at) = open.pop() {
                if body.insert(at) {
                    open.extend(&predecessors[at]);
                }
            }
            (first == 0 || !body.contains(&0)).then_some(body)
        };
        (0..self.instructions.len()).filter_map(of).collect()
    }

    /// Number of the instructions with these names in a loop.
    fn count(&self, names: &[&str], within: &BTreeSet<usize>) -> usize {
        within.iter().filter(|at| self.instructions[**at].is_one_of(names)).count()
    }

    /// Accesses to local memory: the most in an innermost loop with matrix instructions, and the most in any loop with them. An outer
    /// loop goes over tiles of the result, and has their epilogue.
    fn local(&self) -> (usize, usize) {
        let mut with_products = self.loops();
        with_products.retain(|within| self.count(&PRODUCTS, within) > 0);
        let inner =
            |within: &&BTreeSet<usize>| !with_products.iter().any(|o| o.len() < within.len() && o.is_subset(within));
        let most = |count: usize, within: &BTreeSet<usize>| count.max(self.count(&LOCAL, within));
        (with_products.iter().filter(inner).fold(0, most), with_products.iter().fold(0, most))
    }
}

/// Command of the disassembler.
fn disassembler() -> Command {
    let path = std::env::var_os("PARALLAX_NVDISASM").filter(|path| !path.is_empty());
    Command::new(path.unwrap_or_else(|| "nvdisasm".into()))
}

/// Output of the disassembler.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("this test reads machine code and needs nvdisasm (no GPU): `./x env`, or PARALLAX_NVDISASM: {error}")
    });
    assert!(output.status.success(), "nvdisasm: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Listing of a binary, kept between runs.
fn listing(memo: &Memo, version: &str, cubin: &[u8]) -> String {
    let key = Key::default().with(version).with(cubin);
    if let Some(kept) = memo.get(&key).and_then(|bytes| String::from_utf8(bytes).ok()) {
        return kept;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(cubin).expect("written");
    let listing = said(disassembler().arg("-c").arg(file.path()));
    memo.put(&key, listing.as_bytes());
    listing
}

/// A source with matrix instructions of warpgroups, and a case that has it.
struct Product {
    case: Case,
    text: KernelSource,
}

/// Sources of a form's CUDA variants with matrix instructions, at the first and the last main shape. The type is bf16 where the variant takes it.
fn products(workload: &'static Workload, form: &'static OpSpec) -> Vec<Product> {
    let main = form.headline.into_iter().chain((form.shapes)(Preset::Full).iter().copied());
    let of = |shape, variant: &Variant| {
        let VariantKind::Kernel { dialects, available, program } = variant.how else { return None };
        let runs = |problem: &Problem| dialects.contains(&Dialect::Cuda) && available(problem, &caps(ARCH)).is_ok();
        let types = [DType::BF16, DType::F32].into_iter().filter(|dtype| workload.dtypes.contains(dtype));
        let problem = |dtype| Problem::new(workload, form.direction, shape, dtype).expect("a valid shape");
        let problem = types.map(problem).find(runs)?;
        let (texts, _) = assemble_all(&embedded(), &program(&problem, &caps(ARCH)), problem.dtype).expect("texts");
        let case = Case { problem, variant: variant.name };
        let found = texts.into_iter().filter(|text| text.source.contains(PRODUCT));
        Some(found.map(|text| Product { case: case.clone(), text }).collect::<Vec<_>>())
    };
    let of_variant = |variant| {
        let shapes: Vec<Vec<Product>> = main.clone().filter_map(|shape| of(shape, variant)).collect();
        let last = shapes.len().saturating_sub(1);
        shapes.into_iter().enumerate().filter(move |(at, _)| [0, last].contains(at)).flat_map(|(_, products)| products)
    };
    form.variants.iter().flat_map(of_variant).collect()
}

/// Products that are compiled: those of the workload whose kernel it is, so that composites add none.
fn chosen() -> Vec<Product> {
    let forms = all().iter().flat_map(|workload| workload.forms.iter().map(move |form| (workload, form)));
    let every: Vec<Product> = forms.flat_map(|(workload, form)| products(workload, form)).collect();
    let files: BTreeSet<String> = every.iter().map(|product| product.text.file.clone()).collect();
    let mut known = HashSet::new();
    let own = |p: &Product| p.text.file.split('/').next() == Some(p.case.problem.workload.name);
    let chosen: Vec<Product> = every.into_iter().filter(|p| own(p) && known.insert(p.text.source.clone())).collect();
    let covered = chosen.iter().map(|product| product.text.file.clone()).collect();
    assert_eq!(files, covered, "a kernel that only other workloads' cases have");
    chosen
}

/// Rows of the table for a source: its functions with their matrix instructions. Findings follow the rows as lines of their own.
fn rows(product: &Product, version: &str) -> String {
    let Product { case, text } = product;
    let (cubin, said) = compiled(&Memo::new("nvrtc"), text, ARCH).unwrap_or_else(|error| panic!("{case}: {error}"));
    let listing = listing(&Memo::new("sass"), version, &cubin);
    let mut rows = String::new();
    for (name, function) in functions(&listing) {
        let counts = function.products();
        if counts.is_empty() {
            continue;
        }
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        rows += &format!("{case} | {} | {name} | {}\n", text.file, counts.join(", "));
        let (innermost, around) = function.local();
        if around > 0 {
            rows += &format!("  around these: {around} accesses to local memory\n");
        }
        if innermost > 0 {
            rows += &format!("{FINDING}{innermost} accesses to local memory between these\n");
        }
    }
    assert!(!rows.is_empty(), "{case}, {}: no matrix instructions in\n{listing}", text.file);
    rows + &slower(&said).map(|line| format!("{FINDING}{line}\n")).collect::<String>()
}

#[test]
fn kernels_of_warpgroups_have_their_matrix_instructions_and_spill_nothing_in_their_loops() {
    let version = said(disassembler().arg("--version"));
    let compiler = nvrtc::get().expect("this test compiles kernels and needs NVRTC (no GPU)").version();
    let chosen = chosen();
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(product) = chosen.get(at) else { break };
                    let rows = rows(product, &version);
                    found.lock().expect("no panic").insert(at, rows);
                }
            });
        }
    });
    let table: String = found.into_inner().expect("no panic").into_values().collect();
    insta::assert_snapshot!("sass", format!("NVRTC {compiler:?}\n{table}"));
    let findings: Vec<&str> = table.lines().filter(|line| line.starts_with(FINDING)).collect();
    assert!(findings.is_empty(), "{table}");
}

/// A listing of two loops in another: one with products, and one without.
const LISTING: &str = "\
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_2:
        /*0010*/                   NOP ;
.L_x_0:
        /*0020*/              @!P0 HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT ;
        /*0030*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0050*/                   STL.64 [R1], R2 ;
        /*0060*/               @P0 BRA `(.L_x_1) ;
        /*0070*/               @P1 BRA `(.L_x_2) ;
        /*0080*/                   EXIT ;
";

#[test]
fn accesses_to_local_memory_count_in_loops_with_products_alone() {
    let kernel = |listing: &str| functions(listing).remove("kernel").expect("its name");
    let plain = kernel(LISTING);
    assert_eq!(plain.products(), BTreeMap::from([("HGMMA.64x8x16.F32.BF16", 2)]));
    assert_eq!(plain.loops(), [2..=4, 5..=6, 1..=7].map(BTreeSet::from_iter));
    assert_eq!(plain.local(), (0, 1), "the outer loop stores");
    let load = "        /*0038*/                   LDL R2, [R1] ;\n        /*0040*/";
    assert_eq!(kernel(&LISTING.replace("        /*0040*/", load)).local(), (1, 2));
    assert_eq!(kernel(&LISTING.replace("@P1 BRA", "NOP")).local(), (0, 0), "a loop without products stores");
    let moved = "@P1 BRA `(.L_x_2) ;\n        /*0078*/              @P1 BRA `(.L_x_3)";
    let behind = "EXIT ;\n.L_x_3:\n        /*0090*/                   LDL R2, [R1] ;\n        /*00a0*/                   BRA `(.L_x_1) ;";
    let moved = kernel(&LISTING.replace("@P1 BRA `(.L_x_2)", moved).replace("EXIT ;", behind));
    assert_eq!(moved.local(), (0, 2), "a stretch behind the end belongs to the loop that it returns to");
    assert!(kernel(&LISTING.replace("HGMMA", "IGMMA")).products().contains_key("IGMMA.64x8x16.F32.BF16"));
    assert!(kernel(&LISTING.replace("HGMMA", "HMMA")).products().is_empty());
}
