//! Object stores with run files: Amazon S3, Google Cloud Storage, Azure Blob Storage, and folders.
//!
//! Credentials and endpoints come from the environment, as in each vendor's own tools: `AWS_…`, `GOOGLE_…` and `AZURE_…`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures_util::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, parse_url_opts};
// Gives object_store's client its TLS.
use reqwest as _;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::crypto::ring;
use url::Url;

use parallax_schema::units::Bytes;

/// Schemes of object stores in addresses.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "file"];
/// Beginnings of variables with a store's options.
const VARIABLES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Store, with a common beginning of all keys.
#[derive(Debug, Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Key,
    /// Address of the prefix.
    address: String,
    runtime: Arc<Runtime>,
}

/// Object in a store.
#[derive(Debug, Clone)]
pub struct Object {
    store: Store,
    key: Key,
    size: u64,
}

/// Outcome of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The store has the object now.
    New,
    /// The store had an object of this name.
    AlreadyThere,
}

/// Returns the text of an address of an object store; `None` for other paths.
pub fn address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    SCHEMES.contains(&scheme).then_some(text)
}

impl Store {
    /// Opens the store of an address. No request is made.
    ///
    /// # Errors
    /// Address without a bucket, or options that contradict each other.
    pub fn open(address: &str) -> anyhow::Result<Store> {
        // A provider that is installed already does as well.
        drop(ring::default_provider().install_default());
        let url = Url::parse(address).with_context(|| format!("`{address}` is no address of an object store"))?;
        let options =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let options = options.filter(|(name, _)| VARIABLES.iter().any(|begin| name.starts_with(begin)));
        let (objects, prefix) =
            parse_url_opts(&url, options).with_context(|| format!("cannot open the object store of {address}"))?;
        let runtime =
            Builder::new_current_thread().enable_all().build().context("cannot start the runtime of requests")?;
        let address = address.trim_end_matches('/').to_owned();
        Ok(Store { objects: Arc::from(objects), prefix, address, runtime: Arc::new(runtime) })
    }

    /// Returns the objects of the address: the one of this name, or all below it.
    ///
    /// # Errors
    /// Refused request, or a store that cannot be reached.
    pub fn list(&self) -> anyhow::Result<Vec<Object>> {
        let found = async {
            let below: Vec<_> = self.objects.list(Some(&self.prefix)).try_collect().await?;
            if !below.is_empty() || self.prefix.as_ref().is_empty() {
                return Ok(below);
            }
            match self.objects.head(&self.prefix).await {
                Ok(one) => Ok(vec![one]),
                Err(Error::NotFound { .. }) => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        };
        let found = self.runtime.block_on(found).with_context(|| self.unreachable("list"))?;
        let object =
            |meta: object_store::ObjectMeta| Object { store: self.clone(), key: meta.location, size: meta.size };
        Ok(found.into_iter().map(object).collect())
    }

    /// Uploads an object under the parts of a name below the address. An object of this name stays as it is.
    ///
    /// # Errors
    /// Refused request, or a store that cannot be reached.
    pub fn put<'a>(&self, name: impl Iterator<Item = Cow<'a, str>>, contents: Vec<u8>) -> anyhow::Result<Sent> {
        let key = name.fold(self.prefix.clone(), |key, part| key.join(part.as_ref()));
        let put = self.objects.put_opts(&key, contents.into(), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(Sent::New),
            Err(Error::AlreadyExists { .. }) => Ok(Sent::AlreadyThere),
            Err(error) => Err(error).with_context(|| self.unreachable("write to")),
        }
    }

    fn unreachable(&self, action: &str) -> String {
        format!(
            "cannot {action} {}; credentials and endpoint are those of the variables {}…",
            self.address,
            VARIABLES.join("…, ")
        )
    }
}

impl Object {
    /// Returns the name of the object in its store.
    pub fn key(&self) -> &str {
        self.key.as_ref()
    }

    /// Returns the contents.
    ///
    /// # Errors
    /// Object of more than `most` bytes; refused request, or a store that cannot be reached.
    pub fn contents(&self, most: u64) -> anyhow::Result<Vec<u8>> {
        if self.size > most {
            bail!("it has {}, and {} are the limit", Bytes(self.size), Bytes(most));
        }
        let contents = async { self.store.objects.get(&self.key).await?.bytes().await };
        let contents = self.store.runtime.block_on(contents).with_context(|| format!("cannot read {self}"))?;
        Ok(contents.into())
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = self.key.as_ref().strip_prefix(self.store.prefix.as_ref()).unwrap_or(self.key.as_ref());
        match below.trim_start_matches('/') {
            "" => f.write_str(&self.store.address),
            below => write!(f, "{}/{below}", self.store.address),
        }
    }
}
