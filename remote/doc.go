// Package remote runs commands on another machine, however it is reached.
//
// The whole seam is one method: [Runner.Run] runs a [Cmd], which is an argument
// vector and three streams, and returns nil, an [*ExitError], or what kept the
// command from running. SSH (package remote/ssh) and the QEMU guest agent
// (package proxmox) are Runners; so is anything a caller writes in ten lines.
//
// Around it are the few things every caller wants: [Output], [ReadFile],
// [WriteFile] and [Sudo]. Commands are argv, never command strings: quoting, where
// a transport needs it, is done in that transport and nowhere else. Secrets go to
// a command on its Stdin, or as a file's content through [WriteFile], which sends
// them on stdin too.
package remote
