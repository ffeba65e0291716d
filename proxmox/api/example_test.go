package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A request for which package proxmox has no method. The host is a simulated one; for a real
// one leave out HTTPClient and say how its certificate is known.
func Example() {
	host := pvesim.New(pvesim.EightA100(), pvesim.Options{Speed: 1000})
	defer host.Close()
	id, value := host.Token()

	ctx := context.Background()
	pve, err := api.Dial(ctx, api.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: host.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	var bridges []struct {
		Name string `json:"iface"`
	}
	if err := pve.Get(ctx, api.NodePath("pve1", "network"), map[string][]string{"type": {"bridge"}}, &bridges); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(bridges) > 0, bridges[0].Name)

	err = pve.Do(ctx, http.MethodPost, api.VMPath("pve1", 999, "status", "start"), nil)
	fmt.Println(errors.Is(err, api.ErrNotFound), api.ClassOf(err))
	// Output:
	// true vmbr0
	// true permanent
}
