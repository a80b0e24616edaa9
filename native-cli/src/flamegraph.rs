//! Flame graphs of runs: the device time of every traced stage, as one SVG.

use anyhow::bail;
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};
use parallax_report::flame;
use parallax_schema::record::NamedRun;

/// Returns the graph of all cases side by side. It is deterministic.
///
/// # Errors
/// No case with stage times.
pub fn svg(runs: &[NamedRun]) -> anyhow::Result<String> {
    let stacks = flame::folded(runs);
    if stacks.is_empty() {
        bail!("there are no stage times to draw: `parallax profile WORKLOAD` measures them");
    }
    let mut options = Options::default();
    options.title = "Parallax: device time of one execution by stage, medians".to_owned();
    options.subtitle = Some(flame::devices(runs));
    options.count_name = "ns".to_owned();
    options.name_type = "Part:".to_owned();
    options.text_truncate_direction = TextTruncateDirection::Right;
    // Colours depend on names alone.
    options.deterministic = true;
    // Keeps the stages in execution order, without the default sort. Such charts are drawn from the last line upwards.
    options.flame_chart = true;
    let mut svg = Vec::new();
    from_lines(&mut options, stacks.iter().rev().map(String::as_str), &mut svg)?;
    Ok(String::from_utf8(svg)?)
}
