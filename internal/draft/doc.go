// Package draft writes a first cluster.yaml for hosts that it has looked at.
//
// [Discover] asks Proxmox what is there: hosts, storages, bridges, cards, and the
// addresses that are known to be in use. [Inventory.Defaults] proposes a cluster for that,
// a person or a program may answer otherwise, [Answers.Check] says what does not fit,
// and [Render] writes the file: commented, with what was chosen, why, and what else
// there is. What it writes is a file that package cluster accepts.
//
// Nothing is changed anywhere, and no secret is in the file: it names where one is.
package draft
