// Package targets has every Mage target: cluster:up, gpu:verify and the others. A magefile
// of your own that imports it has them, beside your own:
//
//	//mage:import
//	"github.com/cps-gpu/homelab/targets"
//
// They end the program with exit codes that mean something: 0 done or nothing to do, 1
// failed, 2 there is something to do, 3 the file or the command line is wrong, 4 refused,
// 130 interrupted.
package targets
