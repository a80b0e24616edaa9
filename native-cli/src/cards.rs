//! GPUs of this machine. Each appears once, regardless of the number of interfaces to it.

use parallax_analysis::compare::identity::normalised;
use parallax_schema::device::DeviceKind;
use parallax_schema::device::identity::{Identity, pci_address};
use parallax_shaders::Adapter;
use serde::Serialize;

/// A GPU, or an emulation of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    /// Name given by the driver.
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Identity, as far as the interfaces report it.
    pub identity: Identity,
    /// Device number in CUDA, if CUDA has it.
    pub cuda: Option<usize>,
    /// Adapter number in wgpu, if wgpu has it.
    pub wgpu: Option<usize>,
    /// Whether only the names match the CUDA device with the adapter.
    pub doubt: bool,
}

/// Error of the selection of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// No match.
    #[error("no device matches `{wanted}`; {present}")]
    None {
        /// Requested GPU.
        wanted: String,
        /// Present GPUs, for the message.
        present: String,
    },
    /// Several matches.
    #[error("`{wanted}` is the name of several devices: {which}; choose one by number, UUID or PCI address")]
    Several {
        /// Requested GPU.
        wanted: String,
        /// Matching GPUs, for the message.
        which: String,
    },
}

impl Card {
    /// Returns the names of this process's targets that reach the GPU.
    pub fn targets(&self) -> Vec<&'static str> {
        let [cuda, wgpu] = [(self.cuda, "cuda"), (self.wgpu, "wgpu")].map(|(number, name)| number.map(|_| name));
        cuda.into_iter().chain(wgpu).collect()
    }

    /// Returns name, kind, PCI address and UUID, for display.
    pub fn words(&self) -> String {
        let told = [&self.identity.pci, &self.identity.uuid].into_iter().flatten();
        let told: String = told.map(|part| format!(", {part}")).collect();
        let doubt = if self.doubt { " (one card by name only)" } else { "" };
        format!("{} ({}{told}): {}{doubt}", self.name, self.kind.name(), self.targets().join(", "))
    }
}

/// Returns all GPUs: those of CUDA first, in CUDA's order; emulations last.
pub fn cards() -> Vec<Card> {
    merge(parallax_cuda::devices(), pollster::block_on(parallax_shaders::adapters()))
}

/// Merges the lists of both interfaces.
fn merge(cuda: Vec<(String, Identity)>, wgpu: Vec<Adapter>) -> Vec<Card> {
    let of_cuda = |(number, (name, identity))| {
        let kind = DeviceKind::Discrete;
        Card { name, kind, identity, cuda: Some(number), wgpu: None, doubt: false }
    };
    let mut cards: Vec<Card> = cuda.into_iter().enumerate().map(of_cuda).collect();
    let names = |cards: &[Card]| -> Vec<String> { cards.iter().map(|card| normalised(&card.name)).collect() };
    let known = names(&cards);
    for (number, Adapter { name, kind, identity }) in wgpu.iter().cloned().enumerate() {
        let certain = |card: &Card| card.wgpu.is_none() && card.identity.same(&identity) == Some(true);
        let alike = normalised(&name);
        // Among several GPUs of one name, the name identifies none.
        let alone = known.iter().filter(|other| **other == alike).count() == 1
            && wgpu.iter().filter(|other| normalised(&other.name) == alike).count() == 1;
        let likely = |card: &Card| {
            alone && card.wgpu.is_none() && card.identity.same(&identity).is_none() && normalised(&card.name) == alike
        };
        let at = cards.iter().position(certain).or_else(|| cards.iter().position(likely));
        match at {
            Some(at) => {
                let card = &mut cards[at];
                card.doubt = card.identity.same(&identity).is_none();
                card.kind = kind;
                card.wgpu = Some(number);
                let Identity { pci, uuid, model } = identity;
                let known = &mut card.identity;
                known.pci = known.pci.take().or(pci);
                known.uuid = known.uuid.take().or(uuid);
                known.model = known.model.or(model);
            }
            None => cards.push(Card { name, kind, identity, cuda: None, wgpu: Some(number), doubt: false }),
        }
    }
    cards
}

/// Returns the selected GPU. `wanted` is its number in the list, a part of its name, a prefix of its UUID, or its PCI
/// address.
///
/// # Errors
/// No match, or several matches of a name.
pub fn choose<'c>(cards: &'c [Card], wanted: &str) -> Result<&'c Card, CardError> {
    let (small, address) = (wanted.to_lowercase(), pci_address(wanted));
    let found: Vec<(usize, &Card)> = match wanted.parse::<usize>() {
        Ok(number) => cards.iter().enumerate().skip(number).take(1).collect(),
        Err(_) => {
            let uuid =
                |card: &Card| card.identity.uuid.as_ref().is_some_and(|id| id.to_lowercase().starts_with(&small));
            let at = |card: &Card| address.is_some() && card.identity.pci == address;
            let named = |card: &Card| card.name.to_lowercase().contains(&small);
            let is_it = |(_, card): &(usize, &Card)| !small.is_empty() && (uuid(card) || at(card) || named(card));
            cards.iter().enumerate().filter(is_it).collect()
        }
    };
    match &found[..] {
        [(_, card)] => Ok(card),
        [] => {
            let present = match cards {
                [] => "there is none".to_owned(),
                _ => {
                    format!("there {}: {}", if cards.len() == 1 { "is" } else { "are" }, list(cards.iter().enumerate()))
                }
            };
            Err(CardError::None { wanted: wanted.to_owned(), present })
        }
        several => Err(CardError::Several { wanted: wanted.to_owned(), which: list(several.iter().copied()) }),
    }
}

fn list<'c>(cards: impl Iterator<Item = (usize, &'c Card)>) -> String {
    cards.map(|(number, card)| format!("{number}: {}", card.words())).collect::<Vec<_>>().join("; ")
}

/// Returns the default adapter of wgpu: that of CUDA's default GPU, so that all targets use one GPU. CUDA is not
/// queried on machines with a single GPU.
pub fn usual_adapter() -> Option<usize> {
    let adapters = pollster::block_on(parallax_shaders::adapters());
    match adapters.iter().filter(|adapter| !adapter.kind.is_emulated()).count() {
        0 | 1 => None,
        _ => merge(parallax_cuda::devices(), adapters).iter().find(|card| card.cuda == Some(0))?.wgpu,
    }
}

/// Options that direct a browser to a GPU, and the reason for which they may fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrowserGpuFlags {
    /// Flags for the browser's command line.
    pub flags: Vec<String>,
    /// Environment variables of the browser: Vulkan's loader and Mesa put the GPUs of a model first.
    pub environment: Vec<(String, String)>,
    /// Reason for which the browser may use another GPU.
    pub doubt: Option<String>,
}

/// Returns the name of the machine's only GPU, on which a browser must run; `None` with several GPUs.
pub fn only(adapters: &[Adapter]) -> Option<String> {
    let mut real = adapters.iter().filter(|adapter| !adapter.kind.is_emulated());
    let first = real.next()?;
    real.next().is_none().then(|| first.name.clone())
}

/// Returns the options that direct a browser to a GPU. Browsers do not report the PCI address, and select by model, not
/// by address.
pub fn steering(cards: &[Card], card: &Card) -> BrowserGpuFlags {
    let others = || cards.iter().filter(|other| *other != card && !other.kind.is_emulated());
    if others().next().is_none() {
        return BrowserGpuFlags::default();
    }
    let power = match card.kind {
        DeviceKind::Discrete => "high-performance",
        _ => "low-power",
    };
    let flags = vec![format!("--use-webgpu-power-preference=force-{power}")];
    let Some([vendor, device]) = card.identity.model else {
        let doubt = Some(format!("the model of {} is not known, so the browser may take another card", card.name));
        return BrowserGpuFlags { flags, doubt, ..BrowserGpuFlags::default() };
    };
    let environment = vec![
        ("VK_LOADER_DEVICE_SELECT".to_owned(), format!("{vendor:#06x}:{device:#06x}")),
        ("MESA_VK_DEVICE_SELECT".to_owned(), format!("{vendor:04x}:{device:04x}!")),
    ];
    let twins = others().filter(|other| other.identity.model == card.identity.model).count();
    let doubt = (twins > 0)
        .then(|| format!("{} cards are {}: the browser can choose the model, not the card", twins + 1, card.name));
    BrowserGpuFlags { flags, environment, doubt }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: [u32; 2] = [0x10de, 0x2335];
    const IRIS: [u32; 2] = [0x8086, 0x9a49];

    fn identity(pci: &str, uuid: &str, model: Option<[u32; 2]>) -> Identity {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Identity { pci: some(pci), uuid: some(uuid), model }
    }

    fn cuda(pci: &str, uuid: &str) -> (String, Identity) {
        ("NVIDIA H200".to_owned(), identity(pci, uuid, None))
    }

    fn adapter(name: &str, kind: DeviceKind, pci: &str, model: [u32; 2]) -> Adapter {
        Adapter { name: name.to_owned(), kind, identity: identity(pci, "", Some(model)) }
    }

    fn llvmpipe() -> Adapter {
        adapter("llvmpipe (LLVM 19)", DeviceKind::Software, "", [0x1_0005, 0])
    }

    #[test]
    fn a_gpu_without_others_is_known_and_emulations_are_none() {
        let card = || adapter("NVIDIA H200", DeviceKind::Discrete, "", H200);
        assert_eq!(only(&[card(), llvmpipe()]).as_deref(), Some("NVIDIA H200"));
        assert_eq!((only(&[card(), card()]), only(&[llvmpipe()])), (None, None));
    }

    /// Two equal GPUs, which Vulkan lists in reverse order.
    fn server() -> Vec<Card> {
        let h200 = |pci| adapter("NVIDIA H200", DeviceKind::Discrete, pci, H200);
        merge(
            vec![cuda("0000:65:00.0", "GPU-aa11"), cuda("0000:66:00.0", "GPU-bb22")],
            vec![h200("0000:66:00.0"), h200("0000:65:00.0"), llvmpipe()],
        )
    }

    /// The two GPUs of a laptop, one of them without CUDA.
    fn laptop() -> Vec<Card> {
        merge(
            vec![("NVIDIA RTX 500".to_owned(), identity("", "GPU-cc", None))],
            vec![
                adapter("RTX 500", DeviceKind::Discrete, "", [0x10de, 1]),
                adapter("Intel(R) Iris", DeviceKind::Integrated, "0000:00:02.0", IRIS),
            ],
        )
    }

    /// One GPU in two slices (MIG), which Vulkan lists as one.
    fn sliced() -> Vec<Card> {
        let slice = |uuid| ("NVIDIA H200 MIG 1g.18gb".to_owned(), identity("0000:65:00.0", uuid, None));
        let whole = adapter("NVIDIA H200", DeviceKind::Discrete, "0000:65:00.0", H200);
        merge(vec![slice("MIG-aa11"), slice("MIG-bb22")], vec![whole])
    }

    #[test]
    fn each_card_is_there_once_with_all_that_reaches_it() {
        let reached = |cards: Vec<Card>| cards.iter().map(|c| (c.cuda, c.wgpu, c.doubt)).collect::<Vec<_>>();
        for (cards, want) in [
            (server(), vec![(Some(0), Some(1), false), (Some(1), Some(0), false), (None, Some(2), false)]),
            (laptop(), vec![(Some(0), Some(0), true), (None, Some(1), false)]),
            (merge(Vec::new(), vec![llvmpipe()]), vec![(None, Some(0), false)]),
            (merge(vec![cuda("0000:65:00.0", "")], Vec::new()), vec![(Some(0), None, false)]),
            (sliced(), vec![(Some(0), None, false), (Some(1), None, false), (None, Some(0), false)]),
        ] {
            assert_eq!(reached(cards.clone()), want, "{cards:?}");
        }
        // Names alone identify nothing among two GPUs of one name.
        let nameless = || adapter("NVIDIA H200", DeviceKind::Discrete, "", H200);
        let unknown = merge(vec![cuda("", "GPU-1"), cuda("", "GPU-2")], vec![nameless(), nameless()]);
        assert_eq!(unknown.len(), 4, "{unknown:?}");
        assert_eq!(server()[0].identity.model, Some(H200), "facts of one interface are kept");
    }

    #[test]
    fn a_card_is_meant_by_number_name_uuid_or_address() {
        let cards = server();
        for (wanted, number) in [
            ("0", 0),
            ("1", 1),
            ("llvm", 2),
            ("GPU-bb22", 1),
            ("gpu-aa", 0),
            ("0000:66:00.0", 1),
            ("65:00.0", 0),
            ("00000000:66:00.0", 1),
        ] {
            assert_eq!(choose(&cards, wanted), Ok(&cards[number]), "{wanted}");
        }
        let slices = sliced();
        assert_eq!(choose(&slices, "MIG-bb22"), Ok(&slices[1]));
        assert_eq!(choose(&slices, "mig-aa"), Ok(&slices[0]));
        let both = choose(&slices, "65:00.0").expect_err("three devices are at it").to_string();
        assert!(both.contains("MIG-aa11") && both.contains("MIG-bb22"), "{both}");
        for (wanted, said) in [
            ("7", "there are: 0: NVIDIA H200 (GPU with its own memory, 0000:65:00.0, GPU-aa11): cuda, wgpu; 1:"),
            ("Voodoo 2", "no device matches `Voodoo 2`"),
            ("", "no device matches ``"),
            ("h200", "several devices: 0: NVIDIA H200"),
        ] {
            let error = choose(&cards, wanted).expect_err(wanted).to_string();
            assert!(error.contains(said), "{wanted}: {error}");
        }
        assert!(choose(&[], "0").expect_err("none").to_string().contains("there is none"));
    }

    #[test]
    fn a_browser_is_steered_to_a_model_and_says_when_that_is_not_enough() {
        let [server, laptop] = [server(), laptop()];
        let twin = steering(&server, &server[1]);
        assert!(twin.doubt.as_ref().is_some_and(|doubt| doubt.contains("2 cards are NVIDIA H200")), "{twin:?}");
        assert_eq!(twin.environment[0], ("VK_LOADER_DEVICE_SELECT".to_owned(), "0x10de:0x2335".to_owned()));
        let integrated = steering(&laptop, &laptop[1]);
        assert_eq!(integrated.flags, ["--use-webgpu-power-preference=force-low-power"]);
        assert_eq!(integrated.environment[1].1, "8086:9a49!");
        assert_eq!(integrated.doubt, None);
        assert_eq!(steering(&server[2..], &server[2]), BrowserGpuFlags::default(), "nothing to choose from");
    }
}
