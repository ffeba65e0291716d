// Package conform compares the simulated Proxmox VE of package pvesim with the real one.
//
// [Coverage] compares what pvesim serves with Proxmox's own API schema: routes,
// parameters and what each may be, formats, permissions. What the product asks for
// must all be there; of the rest it tells the share. What the product asks is found
// in its source, where package proxmox makes its calls, and in what whole lives of
// clusters asked (calls.txt). What of a parameter has an effect is found in the
// source of pvesim: one that nothing reads must be in inert.yaml, with a reason.
//
// [Replays.Replay] asks pvesim what was once asked of real Proxmox VE daemons, in the same
// order, and compares the answers: status, reason, error texts, keys, and values
// where these are not a matter of the day. Whatever differs must be in
// differences.yaml, with a reason; a reason for what does not differ is an error too.
//
// Both need nothing but this repository: the schema (api.json.gz) and the exchanges
// (recorded.jsonl.gz) are embedded. They are facts about a foreign system, reduced
// to what is compared; the tests make them anew where the originals are at hand.
package conform
