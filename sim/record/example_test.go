package record_test

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/record"
)

// A host is recorded, here a simulated one, and its copy brought to life.
func ExampleRead() {
	host := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
	defer host.Close()
	id, token := host.Token()
	model, missing, err := record.Read(context.Background(), record.Options{
		Endpoint: "https://pve1:8006", TokenID: id, TokenSecret: token, Client: host.Client(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	copied := pvesim.New(model, pvesim.Options{})
	defer copied.Close()
	fmt.Println(model.Hosts[0].CPUModel, model.Hosts[0].Memory)
	fmt.Println(missing)
	// Output:
	// AMD Ryzen 9 7950X 16-Core Processor 128GiB
	// []
}
