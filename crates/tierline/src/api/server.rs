// SPDX-License-Identifier: Apache-2.0
//! Listens on a unix socket, and on a loopback port for metrics alone.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcp};
use std::os::unix::fs::{FileTypeExt, chown};
use std::os::unix::net::{UnixListener as StdUnix, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::thread::CapabilitySet;
use tierline_linux::seccomp::{self, Role};
use tierline_linux::{peer, privilege};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{LocalSet, spawn_local};
use tokio_io_timeout::TimeoutStream;

use super::feed::Hub;
use super::http::refused;
use super::limits::{COUNTS, Limits, Slot};
use super::routes::Caller;
use crate::report_error::ErrorWithHint;
use crate::rules::number_of;
use crate::serve::bind;

/// The group whose members may read, if it exists.
const READERS: &str = "tierline";
/// The head of a request arrives within this time, also the first and the next one of a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// A caller reads some of its answer within this time.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// After an error of accept, as of too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest head of a request.
const MOST_HEAD: usize = 16 << 10;

/// Where to listen, and for whom.
#[derive(Debug)]
pub struct ApiOptions {
    /// The socket.
    pub socket: PathBuf,
    /// The group that may open it; `None`: `tierline`, if there is one.
    pub group: Option<String>,
    /// The group that may change something, besides root.
    pub admin_group: Option<String>,
    /// A loopback port for metrics.
    pub metrics: Option<SocketAddr>,
}

/// The sockets of the API; dropping it deletes the file.
pub struct Api {
    socket: PathBuf,
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// Listens, and answers in a thread of its own from then on.
///
/// # Errors
/// If the socket is another daemon's, or a group or port cannot be used.
pub fn start(options: &ApiOptions, hub: Hub) -> Result<Api> {
    let admins = options.admin_group.as_deref().map(group).transpose()?;
    let readers = match &options.group {
        Some(name) => Some(group(name)?),
        None => group(READERS).ok(),
    };
    let metrics = options.metrics.map(loopback).transpose()?;
    let listener = listen(&options.socket, readers)?;
    let api = Api { socket: options.socket.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the API")?;
    let served = thread::Builder::new().name("api".into()).spawn(move || {
        // It needs no right at all. A manager without a filter says so; if capabilities stay, this thread ends, and with
        // it the daemon.
        if privilege::keep_only(CapabilitySet::empty()).is_err() {
            return;
        }
        let _ = seccomp::confine(Role::Api);
        LocalSet::new().block_on(&runtime, serve(listener, metrics, admins, hub));
    });
    served.context("cannot start the API")?;
    Ok(api)
}

/// The number of a group.
fn group(name: &str) -> Result<u32> {
    let known = || number_of(&fs::read_to_string("/etc/group").unwrap_or_default(), name);
    name.parse().ok().or_else(known).ok_or_else(|| {
        ErrorWithHint::error(
            format!("there is no group {name:?} in /etc/group"),
            format!("add it: groupadd --system {name}"),
        )
    })
}

fn loopback(address: SocketAddr) -> Result<StdTcp> {
    if !address.ip().is_loopback() {
        return Err(ErrorWithHint::error(
            format!("{address} can be reached from other machines, and metrics are not protected"),
            "use a loopback address, as in 127.0.0.1:9273, behind a proxy that checks its callers",
        ));
    }
    let bound = StdTcp::bind(address).and_then(|bound| {
        bound.set_nonblocking(true)?;
        Ok(bound)
    });
    bound.map_err(|error| {
        ErrorWithHint::error(
            format!("cannot listen on {address}: {error}"),
            "choose another port: --metrics 127.0.0.1:PORT",
        )
    })
}

/// Binds the socket; one that nobody listens on is replaced.
fn listen(file: &Path, readers: Option<u32>) -> Result<StdUnix> {
    let failed = |what: &str, error: io::Error| {
        ErrorWithHint::error(
            format!("cannot {what} the socket {}: {error}", file.display()),
            "use a folder of your own: --socket PATH",
        )
    };
    match UnixStream::connect(file) {
        Ok(other) => {
            let pid = peer::process(&other).map_or("?".into(), |pid| pid.to_string());
            return Err(ErrorWithHint::error(
                format!("process {pid} listens on {}", file.display()),
                format!(
                    "stop it: systemctl stop tierline, or kill {pid}; or choose another --socket"
                ),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let is_socket =
                fs::symlink_metadata(file).is_ok_and(|meta| meta.file_type().is_socket());
            if !is_socket {
                return Err(failed("replace", io::Error::other("it is no socket")));
            }
            fs::remove_file(file).map_err(|error| failed("replace", error))?;
        }
        Err(error) => return Err(failed("open", error)),
    }
    let listener = bind(file).map_err(|error| failed("open", error))?;
    if let Some(readers) = readers {
        chown(file, None, Some(readers)).map_err(|error| failed("give the group its", error))?;
    }
    listener.set_nonblocking(true).map_err(|error| failed("open", error))?;
    Ok(listener)
}

async fn serve(socket: StdUnix, metrics: Option<StdTcp>, admins: Option<u32>, hub: Hub) {
    let class = || Rc::new(RefCell::new(Limits::default()));
    let (readers, trusted) = (class(), class());
    if let Some(listener) = metrics.and_then(|listener| TcpListener::from_std(listener).ok()) {
        let caller = Caller { may_change: false, limits: class(), hub: hub.clone() };
        spawn_local(serve_metrics(listener, caller));
    }
    let Ok(listener) = UnixListener::from_std(socket) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let may_change = peer::may_change(&stream, admins);
        let limits = if may_change { trusted.clone() } else { readers.clone() };
        let caller = Caller { may_change, limits, hub: hub.clone() };
        admit(stream, caller, false);
    }
}

async fn serve_metrics(listener: TcpListener, caller: Caller) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => admit(stream, caller.clone(), true),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Answers the requests of a connection, or refuses it if there are too many.
fn admit<S>(stream: S, caller: Caller, metrics_only: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let connection = Slot::connection(&caller.limits);
    spawn_local(async move {
        let Some(_connection) = connection else {
            COUNTS.add(503);
            return refuse(stream).await;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_PATIENCE));
        let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
            let caller = caller.clone();
            async move {
                let is_metrics = |uri: &Uri| matches!(uri.path(), "/metrics" | "/v1/metrics");
                let reply = match metrics_only && !is_metrics(request.uri()) {
                    true => {
                        refused(StatusCode::NOT_FOUND, "only /metrics is here", "use the socket")
                    }
                    false => caller.answer(request).await,
                };
                Ok::<_, std::convert::Infallible>(reply)
            }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_HEAD);
        let _ = server.serve_connection(TokioIo::new(Box::pin(stream)), service).await;
    });
}

/// Refuses without reading.
async fn refuse(mut stream: impl AsyncWrite + Unpin) {
    const TEXT: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
        Content-Type: application/json\r\nConnection: close\r\n\r\n\
        {\"error\":\"there are too many connections\",\"hint\":\"close another one\"}\n";
    // It fits into the socket's buffer.
    let _ = tokio::time::timeout(PAUSE, stream.write_all(TEXT)).await;
}
