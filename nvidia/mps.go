package nvidia

import "fmt"

// MPSClients is how many pods may share a GPU by MPS; 0 if none should: MPS can limit a client's
// memory from Volta on (NVIDIA's MPS guide). It keeps no faults apart: on an H100 a wrong address in
// one client ended the programs of the others, and the Xid named one of those. The plugin counts 16 below compute capability 7.5, and 48 from there (cmd/mps-control-daemon/mps/device.go).
func (g GPU) MPSClients() int {
	switch g.Architecture {
	case Older, Kepler, Maxwell, Pascal:
		return 0
	case Volta:
		return 16
	}
	return 48
}

// CheckMPS says why pods cannot share cards of a model by MPS, and what to do.
func CheckMPS(model string, cards []GPU, replicas int) (what, do string) {
	clients := 0
	for _, g := range cards {
		clients = max(clients, g.MPSClients())
	}
	switch {
	case clients == 0:
		return fmt.Sprintf("the %s (%s) cannot be shared by MPS: before Volta it limits no pod's memory", model, cards[0].Architecture), "write sharing: {strategy: time-slicing, replicas: 4}"
	case replicas > clients:
		return fmt.Sprintf("MPS serves at most %d pods on a %s and replicas is %d", clients, model, replicas), fmt.Sprintf("write replicas: %d or less", clients)
	}
	return "", ""
}
