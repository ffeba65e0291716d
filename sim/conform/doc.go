// Package conform compares the simulated Proxmox VE of package pvesim with the real one.
//
// TestCoverage compares pvesim with Proxmox's own API schema: routes, parameters with their
// allowed values, formats, permissions. All methods that the product calls must exist; for the
// rest it reports the share. It finds the product's calls in the source of package proxmox,
// and in the requests of whole lives of clusters (calls.txt).
//
// TestConform repeats recorded requests to real Proxmox VE daemons on pvesim, in the same
// order, and compares the answers: status, reason, error texts, keys, and values unless they
// change from run to run. Every difference must be in differences.yaml, with a reason; a
// reason without a difference is an error too.
//
// Both need only this repository: the schema (api.json.gz) and the exchanges
// (recorded.jsonl.gz) are embedded. They are facts about a foreign system, reduced to what is
// compared; the tests generate them again if the originals are available.
package conform
