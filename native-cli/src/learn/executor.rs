//! Execution of layers: on a device of this process, or in a page.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use parallax_learn::{Answers, Job, Machine, Passes, answers, passes};
use parallax_model::layers::{Arrays, Layer};
use parallax_schema::record::Run;
use parallax_schema::spec::Spec;
use pollster::block_on;

use crate::args::Device;
use crate::browser::{BrowserOptions, PageTarget};
use crate::interrupts::listen_and_say;
use crate::targets::{CPU, Opened, WASM, choose};
use crate::{browser, host, memory, session};

/// Place that computes layers.
pub struct Executor {
    /// Name of the target.
    pub target: &'static str,
    place: Place,
}

enum Place {
    Here(Machine),
    Page(Box<BrowserOptions>),
}

impl Executor {
    /// Opens a target.
    ///
    /// # Errors
    /// Unknown or absent target, or several of them.
    pub fn open(target: Option<&str>, device: &Device) -> anyhow::Result<Executor> {
        let choice = choose(target, device, &[])?;
        if let [(first, _), (second, _), ..] = &choice.reached[..] {
            bail!("a model runs in one place, not on {first} and on {second}: name one --target and one --browser");
        }
        let (target, opened) = choice.one();
        let place = match opened {
            Opened::Here(profiler) => Place::Here(Machine::new(profiler)),
            Opened::Browser(options) => Place::Page(Box::new(options)),
        };
        Ok(Executor { target, place })
    }

    /// Opens a target of this process.
    ///
    /// # Errors
    /// Unknown or absent target, or one of a page.
    pub fn open_here(target: Option<&str>, device: &Device) -> anyhow::Result<Executor> {
        if let Some(page) = target.filter(|name| [PageTarget::Browser.name(), WASM].contains(name)) {
            bail!("models are trained on cpu, wgpu or cuda, not on {page}");
        }
        Executor::open(target, device)
    }

    /// Opens the processor.
    ///
    /// # Errors
    /// Tunables that do not apply.
    pub fn processor(device: &Device) -> anyhow::Result<Executor> {
        Executor::open_here(Some(CPU), device)
    }

    /// Executes layers in order, a page's on the processor. Each takes its inputs from the arrays, and leaves its outputs there.
    ///
    /// # Errors
    /// Case that the device does not run, or missing array.
    pub fn run(&mut self, layers: &[Layer], arrays: &mut Arrays) -> anyhow::Result<()> {
        match &mut self.place {
            Place::Here(machine) => Ok(block_on(machine.run(layers, arrays))?),
            Place::Page(_) => Executor::processor(&Device::default())?.run(layers, arrays),
        }
    }

    /// Executes layers as [`Executor::run`] does. Of the outputs, only those of these names are in the arrays afterwards.
    ///
    /// # Errors
    /// Case that the device does not run, or missing array.
    pub fn run_for(&mut self, wanted: &[&str], layers: &[Layer], arrays: &mut Arrays) -> anyhow::Result<()> {
        match &mut self.place {
            Place::Here(machine) => Ok(block_on(machine.run_for(wanted, layers, arrays))?),
            Place::Page(_) => self.run(layers, arrays),
        }
    }

    /// Returns the answers of a job on a device of this process, without times.
    ///
    /// # Errors
    /// Layer that does not run, or a target of a page.
    pub fn answers(&mut self, job: &Job) -> anyhow::Result<Answers> {
        match &mut self.place {
            Place::Here(machine) => Ok(block_on(answers(machine, job))?),
            Place::Page(_) => Ok(self.passes(job)?.1.answers),
        }
    }

    /// Returns the answers and the times of a job, and a run without records.
    ///
    /// # Errors
    /// Layer that does not run, a browser or a page that failed, or an interruption.
    pub fn passes(&mut self, job: &Job) -> anyhow::Result<(Run, Passes)> {
        let (mut run, passes) = match &mut self.place {
            Place::Here(machine) => {
                let mut passes = block_on(passes(machine, job, async |_| true))?;
                passes.memory.host_peak = memory::peak();
                let (device, clock) = (machine.profiler().device(), machine.profiler().clock());
                (Run::begin_on(self.target, session::suite(), (device, clock), &Spec::default(), Vec::new()), passes)
            }
            Place::Page(options) => {
                listen_and_say("ending the browser")?;
                browser::evaluate(options, job).with_context(|| format!("target {}", self.target))?
            }
        };
        run.started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        for (key, value) in host::facts() {
            run.environment.entry(key).or_insert(value);
        }
        Ok((run, passes))
    }
}
