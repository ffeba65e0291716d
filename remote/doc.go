// Package remote runs commands on another machine, however it is reached.
//
// The interface is one method: [Runner.Run] runs a [Cmd], which is an argument vector and
// three streams, and returns nil, an [*ExitError], or the reason why the command could not
// run. SSH (package remote/ssh) and the QEMU guest agent (package proxmox) are Runners. A
// caller can write another in ten lines; package remote/remotetest has a suite that tests it.
//
// There are a few helpers: [Run] and [Output] for a command and its output, [ReadFile],
// [WriteFile] and [Exists] for files, and [Sudo] and [SudoPassword], which turn a Runner into one
// that is root. They only need a POSIX shell and the core utilities on the other side.
//
// Commands are argument vectors, never command strings: a name with a blank, a quote or a
// newline arrives unchanged. If a transport needs quoting, only that transport does it.
// Anything that needs a shell is a script in a file of its own, embedded, with its inputs as
// positional arguments:
//
//	remote.Run(ctx, machine, "sh", "-c", script, "sh", path, mode)
//
// Pass secrets to a command on its Stdin, or as a file's content through [WriteFile], which
// also uses stdin. Never put them into an argument vector: it is visible in the other
// machine's process list, and in error messages here.
//
// This package is not a configuration manager: it has no desired state and no retries. If the
// end of a command is not known because the connection broke, that is an error and the command
// is never repeated: the caller checks the machine and decides.
package remote
