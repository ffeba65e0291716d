package nvidia_test

import (
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/nvidia"
)

// A driver for a machine with one A100, and one for a machine whose GPU is older
// than the open kernel modules.
func ExampleSelectDriverBranch() {
	for _, text := range []string{"10de:20f1", "10de:1db4"} {
		id, err := nvidia.ParsePCIID(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		driver, reason, err := nvidia.SelectDriverBranch([]nvidia.PCIID{id}, nvidia.Policy{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(driver)
		fmt.Println("because", reason)
	}
	// Output:
	// 580-server-open
	// because 580-server-open: NVIDIA's long-term support branch, until June 2028; for NVIDIA A100-PCIE-40GB (Ampere)
	// 580-server
	// because 580-server: NVIDIA's long-term support branch, until June 2028; branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta), and it does not work with the open kernel modules; for NVIDIA Tesla V100 PCIe 16GB (Volta)
}

// A pin that cannot work is refused, with what to write instead.
func ExampleSelectDriverBranch_refused() {
	v100 := nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x1db4}
	_, _, err := nvidia.SelectDriverBranch([]nvidia.PCIID{v100}, nvidia.Policy{Branch: "595-server-open"})
	fmt.Println(err)
	// Output: NVIDIA driver 595-server-open does not fit: branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta): write 580-server, or leave branch and flavour out
}

// What nvidia-smi reports.
func ExampleParseSMI() {
	report, err := os.ReadFile("testdata/a100.xml") // nvidia-smi -q -x
	if err != nil {
		fmt.Println(err)
		return
	}
	smi, err := nvidia.ParseSMI(report)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("driver", smi.Driver)
	for _, gpu := range smi.GPUs {
		fmt.Println(gpu.Index, gpu.Name, gpu.Memory>>30, "GiB, MIG instances:", len(gpu.Instances))
	}
	// Output:
	// driver 580.173.02
	// 0 NVIDIA A100-PCIE-40GB 40 GiB, MIG instances: 0
	// 1 NVIDIA A100-PCIE-40GB 40 GiB, MIG instances: 2
}
