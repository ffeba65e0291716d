// Package ssh is a [remote.Runner] over SSH.
//
// A [Client] belongs to one address and user. It connects when it is first used and again
// after a connection broke, so it can be made before the machine runs and kept for any time.
// Commands run in parallel over that one connection, and [Client.Dial] opens TCP connections
// from the other side: for a jump host, put its client's Dial into the next client's [Config].
//
// The host key is checked before anything is sent. [Config.HostKeys] returns the machine's
// known keys; the client accepts only those key types, and any other key is a [*HostKeyError].
// There is no trust on first use, and the check cannot be turned off. The caller decides where
// the keys come from: a known_hosts file ([KnownHosts], in OpenSSH's format), keys read over
// another trusted channel such as the QEMU guest agent, or a constant ([Pin]). The client logs
// in with a key ([LoadSigner], [GenerateKey]) or an SSH agent; there are no passwords.
//
// Every call obeys its context: while dialling, in a handshake that is never
// answered, and while a command runs. A cancelled command is sent SIGTERM and
// its session is closed, and Run returns within 200 ms whether or not the other
// side reacts. When a connection breaks under a running command, the outcome is
// unknown and the error, a [*LostError], says so; a command is repeated only if it
// was certainly not started.
//
// Errors that a person must act on are typed and say what to do: [*HostKeyError],
// [*AuthError]. An [*UnreachableError] usually passes: a machine that boots gives it until its
// SSH server is up.
//
// This package reads no ~/.ssh/config, asks nothing on a terminal, and forwards no agent.
package ssh
