// Package targets has every Mage target: cluster:up, gpu:verify and the others. A magefile
// that imports it has them in addition to its own:
//
//	//mage:import
//	"github.com/cps-gpu/homelab/targets"
//
// Their exit codes: 0 done or nothing to do, 1 failed, 2 there is something to do, 3 the file
// or the command line is wrong, 4 refused, 130 interrupted.
package targets
