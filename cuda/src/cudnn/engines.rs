//! Engines that the library's heuristic offers for a graph, and the selection of those with the suite's precision.

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Heuristic, cudnnBackendNumericalNote_t as Note,
};
use parallax_ir::device::BackendError;
use parallax_schema::case::DType;

use super::api::Api;
use super::descriptor::Descriptor;

/// Maximum number of knobs read from an engine.
const KNOBS: usize = 64;

/// An engine with its knobs set, as the heuristic offers it.
pub(super) struct Engine {
    pub(super) config: Descriptor,
    /// Number and knobs of the engine.
    pub(super) name: String,
    notes: Vec<u32>,
    /// The engine behind the configuration.
    _engine: Descriptor,
}

impl Engine {
    fn of(config: Descriptor) -> Result<Engine, BackendError> {
        let kind = Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR;
        let engine = config.held(Name::CUDNN_ATTR_ENGINECFG_ENGINE, kind, 1)?.pop();
        let engine =
            engine.ok_or_else(|| BackendError::Unsupported("cuDNN offers a configuration of no engine".into()))?;
        let most = Note::CUDNN_NUMERICAL_NOTE_TYPE_COUNT as usize;
        let notes = engine.choices(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE, most)?;
        let index = engine.integer(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
        let kind = Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR;
        let knobs = config.held(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kind, KNOBS)?;
        let knob = |knob: &Descriptor| {
            let kind = knob.choices(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, 1)?;
            let value = knob.integer(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?;
            Ok(format!(" k{}={value}", kind.first().copied().unwrap_or_default()))
        };
        let knobs = knobs.iter().map(knob).collect::<Result<String, BackendError>>()?;
        Ok(Engine { config, name: format!("engine {index}{knobs}"), notes, _engine: engine })
    }

    /// Whether the engine computes in the precision that the suite compares.
    pub(super) fn fits(&self, dtype: DType) -> bool {
        fits(&self.notes, dtype)
    }
}

/// Whether the notes of an engine meet the suite's precision. f32 excludes tensor cores, whose inputs have 19 bits. Sums are in
/// f32. Winograd tiles are at most 4 × 4, within the tolerances.
fn fits(notes: &[u32], dtype: DType) -> bool {
    const COARSE: [Note; 5] = [
        Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
        Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        Note::CUDNN_NUMERICAL_NOTE_FFT,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
    ];
    let has = |note: Note| notes.contains(&(note as u32));
    !COARSE.into_iter().any(has) && (dtype != DType::F32 || !has(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
}

/// Returns the description of an absent device, from its properties in the library's format.
#[cfg(test)]
pub(super) fn described_device(api: &'static Api, properties: &str) -> Result<Descriptor, BackendError> {
    let device = Descriptor::new(api, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
    device.text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties)?;
    device.finalized("describing a device")
}

/// Returns the engines that the heuristic offers for a graph, in its order: mode A, then the fallback mode. The device is that of
/// the graph's handle, or a described one.
pub(super) fn offered(
    api: &'static Api,
    graph: &Descriptor,
    device: Option<&Descriptor>,
) -> Result<Vec<Engine>, BackendError> {
    let mut engines = Vec::new();
    for mode in [Heuristic::CUDNN_HEUR_MODE_A, Heuristic::CUDNN_HEUR_MODE_FALLBACK] {
        let heuristic = Descriptor::new(api, Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristic.descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
        heuristic.choice(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, mode as u32)?;
        if let Some(device) = device {
            heuristic.descriptors(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[device])?;
        }
        // A mode without engines returns an error.
        let Ok(heuristic) = heuristic.finalized("asking the heuristic") else { continue };
        let name = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
        let count = heuristic.count(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
        let configs = heuristic.held(name, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count)?;
        for engine in configs.into_iter().map(Engine::of) {
            let engine = engine?;
            if engines.iter().all(|known: &Engine| known.name != engine.name) {
                engines.push(engine);
            }
        }
    }
    Ok(engines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_stays_f32_and_sums_do() {
        let note = |note: Note| vec![note as u32];
        let tensor_cores = note(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        assert!(
            fits(&tensor_cores, DType::F16) && fits(&tensor_cores, DType::BF16) && !fits(&tensor_cores, DType::F32)
        );
        let coarse = note(Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
        assert!(!fits(&coarse, DType::F16) && !fits(&coarse, DType::F32));
        assert!(fits(&note(Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4), DType::F32));
        assert!(!fits(&note(Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6), DType::F32));
        assert!(fits(&[], DType::F32));
    }
}
