// Package clusterfile reads cluster.yaml: it decodes the file, fills in what is left
// out, and checks the whole, so that whatever is wrong is said at once, with its line
// and column. It asks no host and changes nothing.
//
// # What it should be
//
// A cluster is one file, cluster.yaml. [Load] reads it into a [spec.Spec]: every
// default filled in, every pool unrolled into its nodes, every address, size and
// card in a type of its own. The recipes take a Spec and nothing else, and nobody
// changes one after Load. What was seen of the world is never written into it.
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
// What nodes have in common is said once. Each node is made of four layers, the
// network section and defaults, then its pool, then its own entry under nodes; mappings are merged
// key by key, lists are replaced, and null removes what a lower layer says. The
// n-th node of a pool has the n-th of its addresses, so that overriding one node
// moves no other. MAC addresses that the file does not choose follow from the names, and stay.
//
// Secrets are never in the file. Where one belongs the file has a reference,
// env:NAME or file:PATH, which becomes a [spec.SecretRef]: it prints as the reference,
// and is read by the code that needs it, when it needs it. A secret that was
// written into the file all the same is an error that does not repeat it.
//
// # What is wrong with it
//
// Load checks all that can be known without a Proxmox host: spelling, types,
// addresses, networks that overlap, cards that are promised twice, versions that
// do not go together, options that an API token may not set. It reports all of it
// at once, as [spec.Problems], each with its place, what is wrong and what to write
// instead. What is allowed and probably not meant (an even number of servers, thin
// disks that may outgrow their storage) is in its Warnings.
//
// What an editor can check while one types is in schema.json, see [Schema]; a test
// generates it from the same types that the loader fills.
package clusterfile
