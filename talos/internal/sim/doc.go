// Package sim plays Talos machines for tests: their API over real TLS, with the services and messages of Talos' own
// packages, and its own decoder and validation.
//
// # What is as on a machine
//
// Without a configuration a machine shows a key that is new at each boot, says it in its kernel's log, takes
// any configuration from any client and hardly anything else. With one it shows a certificate of the cluster's authority, and
// asks for one with roles. A worker gets its certificate from a server, and does not answer without. A machine that
// takes a configuration is away for a moment. Etcd begins by Bootstrap once; other servers of the same cluster join it
// by themselves. Another version of Talos, or another image, is installed from the
// factory, after which the machine restarts with what it has. NVIDIA's modules are there if the image has their extension
// and the configuration names them, and containers get cards if it has the toolkit's. All of it is read in Talos 1.13.7, in the files that the code names.
//
// # What is missing
//
// Reset of more than EPHEMERAL, events. Time.
package sim
