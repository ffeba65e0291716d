// Package machine reaches one Talos machine: over its API, and before it has a configuration, by the key that it
// says in its kernel's log.
//
// A machine without a configuration waits for one in maintenance mode, with a key that it makes at each
// boot. The one who answers at its address gets all secrets of the cluster. So nothing is sent before the key of
// the one who answers is known to be the machine's: the machine logs its fingerprint, and the log is read by
// the guest agent, over Proxmox' own API ([Fingerprint]). There is no trust on first use.
//
// With its configuration a machine has a certificate of the cluster's own authority, and asks for ours.
package machine
