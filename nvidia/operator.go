package nvidia

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// operatorDrivers are the drivers that NVIDIA publishes as containers for the GPU operator, the
// newest that we know of each branch. Such a container builds the modules on the machine, so it
// works with any kernel. Those with prebuilt modules exist for some kernels only (failure N7).
// Versions: defaults of the operator's chart, 580 of v26.3.3 and 595 of v26.7.0.
func operatorDrivers() map[int]string { return map[int]string{580: "580.126.20", 595: "595.91.07"} }

// OperatorDriver returns the version of the driver that the GPU operator installs for a branch, such
// as 580 or 580-server; "" or "auto" is the default branch.
func OperatorDriver(branch string) (string, error) {
	number := DefaultBranch
	if branch != "" && branch != "auto" {
		m := series.FindStringSubmatch(branch)
		if m == nil {
			return "", &BranchError{branch, "that is not a branch", fmt.Sprintf("write %d, or leave it out", DefaultBranch)}
		}
		number, _ = strconv.Atoi(m[1])
	}
	version, ok := operatorDrivers()[number]
	if !ok {
		var known []string
		for _, b := range slices.Sorted(maps.Keys(operatorDrivers())) {
			known = append(known, strconv.Itoa(b))
		}
		return "", &BranchError{branch, "no container of the GPU operator with it is known", "write " + strings.Join(known, " or ")}
	}
	return version, nil
}
