package doctor_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// Evidence can come from anywhere; [doctor.Collect] asks a cluster for it.
func ExampleDiagnose() {
	gpu1 := spec.Node{Name: "gpu1", Role: spec.Agent, Host: "pve1"}
	report := doctor.Diagnose(doctor.Evidence{
		Spec:     &spec.Spec{Name: "home", Nodes: []spec.Node{gpu1}, K3s: spec.K3s{Version: k3s.DefaultVersion}},
		Machines: []doctor.Machine{{Node: gpu1, Asked: true, VM: &proxmox.VM{Name: "gpu1", VMID: 104, Host: "pve1"}, Err: fmt.Errorf("no route to host")}},
		Nodes:    []kube.Node{{Name: "gpu1", Reason: "its kubelet has not reported since 20:15:00"}},
	})
	for _, cause := range report.Causes() {
		fmt.Println(cause)
		fmt.Println("  cure:", cause.Do)
		for _, more := range report.ConsequencesOf(cause) {
			fmt.Println("  so:", more)
		}
	}
	// Output:
	// gpu1: gpu1 (VM 104 on pve1) does not run
	//   cure: homelab cluster:up starts it; if it stops again, see the task log and the kernel's log on pve1
	//   so: gpu1: nobody can log in, so it was not looked at from inside
	//   so: node gpu1: it is not ready: its kubelet has not reported since 20:15:00
}
