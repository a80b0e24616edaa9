//! `serve`: serves the page and collects its results.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;

use crate::browser::{self, address::At};
use crate::collector;
use crate::console::{errln, is_quiet, noteln, outln};

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Port; 0 for any free one
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Folder of the built page [default: PARALLAX_PAGE, or a search]
    #[arg(long, value_name = "DIR")]
    pub page: Option<PathBuf>,
    /// Folder for the results of browsers, created with the first one
    #[arg(long, value_name = "DIR", default_value = "parallax-results")]
    pub results: PathBuf,
    /// Address of the interface; 0.0.0.0 for all, open to other devices
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// Serve https, with a new certificate; browsers on other devices need it for WebGPU
    #[arg(long)]
    pub tls: bool,
}

/// Serves until the program ends.
pub fn serve(args: &Serve) -> anyhow::Result<()> {
    let page = browser::find_page(args.page.as_deref())?;
    let collector = collector::open(page, At { host: args.host, port: args.port, tls: args.tls }, &args.results)?;
    outln!("{}", collector.address);
    if let Some(code) = collector.code.as_ref().filter(|_| !is_quiet() && std::io::stdout().is_terminal()) {
        outln!("{code}");
    }
    if !args.host.is_loopback() {
        errln!("warning: anyone on this network with the address can open the page and send results");
        if !args.tls {
            errln!("warning: browsers on other devices offer no WebGPU to a page by http; add --tls");
        }
    }
    if let Some(fingerprint) = &collector.fingerprint {
        noteln!(
            "browsers warn of the certificate, which no authority has signed; continue if its SHA-256 fingerprint is\n{fingerprint}"
        );
    }
    noteln!("results are kept in {}", args.results.display());
    loop {
        std::thread::park();
    }
}
