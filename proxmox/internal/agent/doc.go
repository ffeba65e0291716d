// Package agent asks the guest agents of VMs: whether they answer, for files and addresses, and
// to run commands. An agent that does not answer costs its host 3 s each time, so it is asked
// only where there is a sign of life.
package agent
