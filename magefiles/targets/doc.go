// Package targets has every command: as Mage target cluster:up, as command of the program homelab, and as a function,
// [ClusterUp]. All three are made from one table, [Verbs]. A magefile that imports the package has the targets in
// addition to its own:
//
//	//mage:import
//	"github.com/cps-gpu/homelab/magefiles/targets"
//
// The functions take a struct of options, and return an [*Error] with the exit code: 0 done or nothing to do, 1 failed,
// 2 there is something to do, 3 the file or the command line is wrong, 4 refused, 130 interrupted.
package targets
