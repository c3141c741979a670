//! What survives the server, and where it is written.
//!
//! Nearly all of it lies in memfds, whose descriptors the holder keeps for the next server. There are three kinds: one
//! ring per process (written by the holder, read by `log`), one journal, and archive segments. The journal holds
//! records by name: *records* such as `process/<id>`, *values* (`stored/…`) of other modules, and events.
//!
//! Two things are elsewhere: the holder keeps the listening sockets themselves, and the files of execs are in the
//! private directories of their sessions (`session/directory`). What survives outlive itself is in `history`.
//!
//! | what survives | record or file | written when | read back when |
//! |---|---|---|---|
//! | output, exit, input offset | ring, one memfd per process | the holder records output | a reader asks for it |
//! | logs of old exited processes | memfd `archive/<n>` | `retention` archives a ring | a reader asks for it |
//! | processes; runs, except plain ones | journal `process/<id>` | every change | take-over, `process/compact` |
//! | the latest events | journal, event entries | with the record they are about | a follower replays them |
//! | limits changed at run time | journal `config/process`, `config/outlive` | a limit is set | take-over, `Core` |
//! | sessions | value `session/<id>` | created, shell started or ready | take-over, `session/persist` |
//! | execs of a session | value `exec/<session>/<exec>` | queued to ended | take-over, `session/persist` |
//! | stdin of a queued exec | file in the session's directory | before it is queued | the shell reads it |
//! | screens | value `screen/<id>` | before output is overwritten, idle model | the screen is computed again |
//! | tokens, tickets, state of dialects | values set by `Core::store` | the owner stores them | the owner lists them |
//! | listening sockets | descriptor `listen/<address>` at the holder | the server starts to listen | take-over |
//!
//! A value named `x` is the journal record `stored/x`. Names, file formats and serialized fields are stable: an upgrade
//! reads what the previous version wrote. `retention` decides how long exited processes are kept.
//!
//! In-memory caches are not here: the models of screens are in `screen/model_cache`.

pub(crate) mod archive;
pub(crate) mod journal;
mod journal_file;
pub(crate) mod process_record;
pub(crate) mod recent_events;
pub(crate) mod retention;
mod screen_checkpoint;
mod session_records;
pub(crate) mod values;
