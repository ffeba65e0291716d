// Package labctl starts, finds and stops the lab: the simulated site that
// `proxmox.endpoint: lab` means.
//
// The lab itself is the module in lab/, with dependencies that nobody who imports
// this project should ever see. So this package knows it only as a program: it
// builds it ([Build]), starts it in the background ([Start]), finds it again in
// the next command ([Find]), says how it is ([Stat]) and ends it ([Stop]).
//
// All that is known of a running lab is in its folder, .lab/ by default: lab.json
// is a [State], secrets are in files of their own, log/ has a file for each of its
// programs. The process holds a lock on a file there for as long as it lives, so a
// lab.json that a crash left behind is never taken for a lab.
package labctl
