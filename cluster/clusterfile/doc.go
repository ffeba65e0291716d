// Package clusterfile reads cluster.yaml: it decodes the file, fills in defaults, checks
// everything, and reports all mistakes at once, with line and column. It contacts no host and
// changes nothing.
//
// # From the file to a Spec
//
// A cluster is one file, cluster.yaml. [Load] reads it into a [spec.Spec]: every default
// filled in, every pool expanded into its nodes, every address, size and card in a type of its
// own. [Complete] does the same for a Spec that was written in Go. The recipes take only a complete
// Spec, which does not change from then on. It never contains observed state.
//
// The smallest file names the cluster, the Proxmox host, the network and a pool
// with a server in it:
//
//	name: tiny
//	proxmox: {endpoint: lab}
//	network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
//	pools:
//	  cp: {role: server, count: 1, addresses: [10.0.0.11]}
//	  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}
//
// Common settings of nodes are written once. Each node has four layers: the network section and
// defaults, then its pool, then its own entry under nodes. Mappings are merged key by key, lists
// are replaced, and null removes what a lower layer sets. The n-th node of a pool has the n-th of
// its addresses, so overriding one node does not change the others. MAC addresses that the file
// does not set are derived from the names, and stay.
//
// Secrets are never in the file. Instead it has references, env:NAME, file:PATH or sops:FILE#path, which
// become a [spec.SecretRef]: it prints as the reference, and the code that needs the secret
// reads it when it needs it. A secret in the file is an error that does not repeat it.
//
// # Mistakes
//
// Load checks everything that can be known without a Proxmox host: spelling, types, addresses,
// overlapping networks, cards that are assigned twice, options that an API token may not set. It reports all mistakes at once, as [spec.Problems],
// each with its place, what is wrong and what to write instead. What is allowed but probably
// not intended (an even number of servers, thin disks that may outgrow their storage) is in
// Spec.Warnings.
//
// What takes the parts of the platform to check is left to checks that Load is given, so that a
// program that only reads a file carries no charts and none of Kubernetes' types: versions that do not
// work together, charts.via for parts that are off or that Fleet cannot deploy, values that charts do
// not know, queues in the platform's own namespaces, profiles of the hub for which no node has room,
// and mistakes that only making a part finds. [github.com/cps-gpu/homelab/cluster.Load] does it all,
// as every command of homelab does.
//
// schema.json has what an editor can check while you type, see [Schema]; a test generates it
// from the types that the loader fills.
package clusterfile
