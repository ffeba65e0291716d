// Package remote runs commands on another machine, however it is reached.
//
// The whole seam is one method: [Runner.Run] runs a [Cmd], which is an argument
// vector and three streams, and returns nil, an [*ExitError], or what kept the
// command from running. SSH (package remote/ssh) and the QEMU guest agent
// (package proxmox) are Runners; so is anything a caller writes in ten lines, and
// package remote/remotetest holds the suite that says whether it is a good one.
//
// Around it are the few things every caller wants: [Run] and [Output] for a
// command and its answer, [ReadFile], [WriteFile] and [Exists] for files, and
// [Sudo], which turns a Runner into one that is root. They need a POSIX shell and
// the core utilities on the other side, and nothing of ours.
//
// Commands are argv, never command strings: a name with a blank, a quote or a
// newline in it arrives as it was given. Quoting, where a transport needs it, is
// done in that transport and nowhere else. What needs a shell is a script, kept
// in a file of its own, embedded, and given its inputs as positional arguments:
//
//	remote.Run(ctx, machine, "sh", "-c", script, "sh", path, mode)
//
// Secrets go to a command on its Stdin, or as a file's content through
// [WriteFile], which sends them on stdin too. An argument vector is not a place for
// them: it can be read in the other machine's process list, and it is part of
// error messages here.
//
// What this package is not: a configuration manager. It has no notion of a
// desired state, no retries and no opinion on what to run. A command whose end
// is not known (the connection broke in its midst) is an error and is never run
// a second time: whoever asked looks at the machine again and decides.
package remote
