// Package labctl starts, finds and stops the lab: the simulated site that
// `proxmox.endpoint: lab` means.
//
// The lab itself is the module in sim/lab/, whose dependencies importers of this project must not
// get. So this package treats it as a program: it builds it ([Build]), starts it in the
// background ([Start]), finds it in the next command ([Find]), reports its status ([Stat]) and
// stops it ([Stop]).
//
// The folder of a running lab, .lab/ by default, has everything about it: lab.json is a
// [State], secrets are in files of their own, log/ has a file for each program. The process
// holds a lock on a file there while it runs, so a lab.json left by a crash is never mistaken
// for a running lab.
package labctl
