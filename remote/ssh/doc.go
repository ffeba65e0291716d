// Package ssh is a [remote.Runner] over SSH.
//
// A [Client] belongs to one address and user. It connects when it is first used
// and again after a connection broke, so it can be made before the machine runs
// and kept for as long as one likes. Commands are run side by side over that one
// connection, and [Client.Dial] opens TCP connections from the other side: a jump
// host is nothing more than the previous client's Dial in the next one's [Config].
//
// Trust is settled before anything is sent. [Config.HostKeys] is asked for the keys
// that the machine is known to have; the client then offers to accept those key
// types alone, and any other key is a [*HostKeyError]. There is no trust on first
// use and no way to turn the check off. Where the keys come from is the caller's
// matter: a known_hosts file ([KnownHosts], in OpenSSH's format), keys read over
// another trusted channel such as the QEMU guest agent, or a constant ([Pin]).
// We prove who we are with a key ([LoadSigner], [GenerateKey]) or an SSH agent;
// there are no passwords.
//
// Every call obeys its context: while dialling, in a handshake that is never
// answered, and while a command runs. A cancelled command is sent SIGTERM and
// its session is closed, and Run returns within 200 ms whether or not the other
// side reacts. When a connection breaks under a running command, the outcome is
// unknown and the error, a [*LostError], says so; a command is repeated only if it
// was certainly not started.
//
// Errors that a person must act on are typed and say what to do: [*HostKeyError],
// [*AuthError]. [*UnreachableError] is the one worth waiting for: a machine that
// boots gives it until its SSH server is up.
//
// What this package is not: an SSH configuration. It reads no ~/.ssh/config, asks
// nothing on a terminal, and forwards no agent.
package ssh
