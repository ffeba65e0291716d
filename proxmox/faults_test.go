package proxmox_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// deed brings a host to where something is done, by c, and returns it, by tried.
type deed func(t *testing.T, c, tried *proxmox.Client) faults.Case

func made(t *testing.T, c *proxmox.Client) (proxmox.VMSpec, *proxmox.VM) {
	t.Helper()
	spec := scratchNode(t, c)
	require.NoError(t, ensure(t.Context(), c, spec))
	vm, err := c.VMs.Get(t.Context(), owner, spec.Name)
	require.NoError(t, err)
	return spec, vm
}

// shape is bringing about a spec.
func shape(t *testing.T, c, tried *proxmox.Client, spec proxmox.VMSpec) faults.Case {
	return faults.Case{
		Do: func() error { return ensure(t.Context(), tried, spec) },
		Done: func() string {
			vm, err := c.VMs.Get(t.Context(), owner, spec.Name)
			require.NoError(t, err)
			return spec.Diff(vm).String()
		},
	}
}

// toVM is something that is done to a VM that runs, or does not, and how it is then.
func toVM(runs bool, do func(context.Context, *proxmox.Client, *proxmox.VM) error, wrong func(*proxmox.VM) bool) deed {
	return func(t *testing.T, c, tried *proxmox.Client) faults.Case {
		spec, vm := made(t, c)
		if !runs {
			require.NoError(t, c.VMs.Stop(t.Context(), vm))
		}
		now := func(c *proxmox.Client) (*proxmox.VM, error) { return c.VMs.Get(t.Context(), owner, spec.Name) }
		return faults.Case{
			Do: func() error {
				vm, err := now(tried)
				if err != nil || vm == nil {
					return err
				}
				return do(t.Context(), tried, vm)
			},
			Done: func() string {
				vm, err := now(c)
				require.NoError(t, err)
				if wrong(vm) {
					return fmt.Sprintf("it is %+v", vm)
				}
				return ""
			},
		}
	}
}

// look is something that is read, which must be what it is when nothing fails.
func look[T any](read func(context.Context, *proxmox.Client) (T, error)) deed {
	return func(t *testing.T, c, tried *proxmox.Client) faults.Case {
		made(t, c)
		want, err := read(t.Context(), c)
		require.NoError(t, err)
		var got T
		return faults.Case{
			Do: func() (err error) { got, err = read(t.Context(), tried); return err },
			Done: func() string {
				if !reflect.DeepEqual(want, got) {
					return fmt.Sprintf("what was read is %+v, not %+v", got, want)
				}
				return ""
			},
		}
	}
}

// file is a file that is put on a storage.
func file(put func(context.Context, *proxmox.Client) (string, error), find func(context.Context, *proxmox.Client) (string, error)) deed {
	return func(t *testing.T, c, tried *proxmox.Client) faults.Case {
		return faults.Case{
			Do: func() error { _, err := put(t.Context(), tried); return err },
			Done: func() string {
				if id, err := find(t.Context(), c); err != nil || id == "" {
					return fmt.Sprintf("it is not there (%v)", err)
				}
				return ""
			},
		}
	}
}

func deeds(t *testing.T) map[string]deed {
	image, err := guest.DefaultInternet()(imageURL)
	require.NoError(t, err)
	fresh := proxmox.Image{URL: imageURL, SHA256: guest.SHA256(image), FileName: "fresh.qcow2"}
	return map[string]deed{
		"make": func(t *testing.T, c, tried *proxmox.Client) faults.Case { return shape(t, c, tried, scratchNode(t, c)) },
		"change": func(t *testing.T, c, tried *proxmox.Client) faults.Case {
			spec, _ := made(t, c)
			spec.Memory, spec.Cores, spec.Disks[0].Size = 24*proxmox.GiB, 6, 120*proxmox.GiB
			return shape(t, c, tried, spec)
		},
		"stop": toVM(true, func(ctx context.Context, c *proxmox.Client, vm *proxmox.VM) error { return c.VMs.Stop(ctx, vm) },
			func(vm *proxmox.VM) bool { return vm == nil || vm.Running }),
		"start": toVM(false, func(ctx context.Context, c *proxmox.Client, vm *proxmox.VM) error { return c.VMs.Start(ctx, vm) },
			func(vm *proxmox.VM) bool { return vm == nil || !vm.Running }),
		"remove": toVM(true, func(ctx context.Context, c *proxmox.Client, vm *proxmox.VM) error { return c.VMs.Remove(ctx, vm) },
			func(vm *proxmox.VM) bool { return vm != nil }),
		"map and give a GPU": toVM(false, func(ctx context.Context, c *proxmox.Client, vm *proxmox.VM) error {
			gpus, err := c.PCI.GPUs(ctx, vm.Host)
			if err != nil {
				return err
			}
			if err := c.PCI.EnsureMapping(ctx, pci.MapGPUs("gpu0", "", vm.Host, gpus[len(gpus)-1])); err != nil {
				return err
			}
			return proxmox.AttachGPU(ctx, vm, proxmox.HostPCI{Mapping: "gpu0", PCIe: true})
		}, func(vm *proxmox.VM) bool { return vm == nil || len(vm.GPUs) != 1 }),
		"image": file(func(ctx context.Context, c *proxmox.Client) (string, error) {
			return c.Storages.Fetch(ctx, "pve1", "local", fresh)
		},
			func(ctx context.Context, c *proxmox.Client) (string, error) {
				return c.Storages.Image(ctx, "pve1", "local", fresh.FileName)
			}),
		"seed": file(func(ctx context.Context, c *proxmox.Client) (string, error) {
			return c.Storages.Upload(ctx, "pve1", "local", "fresh.iso", []byte("an ISO"))
		}, func(ctx context.Context, c *proxmox.Client) (string, error) {
			return c.Storages.ISO(ctx, "pve1", "local", "fresh.iso")
		}),
		"look at all": look(func(ctx context.Context, c *proxmox.Client) ([]proxmox.Summary, error) { return c.VMs.List(ctx, owner) }),
		"look at hosts": look(func(ctx context.Context, c *proxmox.Client) ([]string, error) {
			hosts, err := c.Hosts.List(ctx)
			var names []string // the rest changes with time
			for _, h := range hosts {
				names = append(names, h.Name)
			}
			return names, err
		}),
		"look at mappings": look(func(ctx context.Context, c *proxmox.Client) ([]pci.MappingState, error) {
			return c.PCI.Mappings(ctx, "pve1")
		}),
		"look at GPUs": look(func(ctx context.Context, c *proxmox.Client) ([]pci.GPU, error) { return c.PCI.GPUs(ctx, "pve1") }),
		"look at bridges": look(func(ctx context.Context, c *proxmox.Client) ([]proxmox.Bridge, error) {
			return c.Hosts.Bridges(ctx, "pve1")
		}),
		"look at volumes": look(func(ctx context.Context, c *proxmox.Client) ([]proxmox.Volume, error) {
			return c.Storages.Volumes(ctx, "pve1", "vmdata", "images")
		}),
		"look at quorum": look(func(ctx context.Context, c *proxmox.Client) (bool, error) { return c.Hosts.Quorate(ctx) }),
		"look at USB mappings": look(func(ctx context.Context, c *proxmox.Client) ([]proxmox.USBMappingState, error) {
			return c.PCI.USBMappings(ctx, "pve1")
		}),
		"look at others' VMs": look(func(ctx context.Context, c *proxmox.Client) (*proxmox.Holders, error) {
			h, err := c.VMs.Holders(ctx, owner)
			if err == nil && len(h.Unreadable) > 0 {
				return h, h.Unreadable[0].Err // such a VM may use anything
			}
			return h, err
		}),
		"look at claims": look(func(ctx context.Context, c *proxmox.Client) ([]pci.Card, error) {
			l, err := c.PCI.Ledger(ctx, "pve1")
			if err != nil {
				return nil, err
			}
			return l.Cards, nil
		}),
	}
}

// faulty is a client of its own whose requests fail as f says.
func faulty(t *testing.T, sim *pvesim.Sim, f *faults.Faults) *proxmox.Client {
	t.Helper()
	id, value := sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client(),
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return f.RoundTripper(next, faults.Answer{Status: http.StatusForbidden, Type: "application/json",
				Body: `{"message":"` + faults.ErrInjected.Error() + `"}`})
		},
	})
	require.NoError(t, err)
	return c
}

// TestEveryRequestFails: whatever request fails, in whatever way, the work is done or the
// error says what came back; a second attempt does it.
func TestEveryRequestFails(t *testing.T) {
	for name, do := range deeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Requests that do not arrive are those of the tests of lost answers and crashes.
			faults.Each(t, []faults.Kind{faults.Unheard, faults.Refused}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
					template(t, c)
					one := do(t, c, faulty(t, sim, f))
					one.Patient = true // what passes is waited for
					settled := func(then func() string) func() string {
						return func() string { time.Sleep(time.Minute); return then() } // looks are kept for a moment
					}
					one.Done = settled(one.Done)
					one.Again = one.Do
					use(t, one)
				})
			})
		})
	}
}
