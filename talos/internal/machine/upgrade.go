package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/safe"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	talosruntime "github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/secret"
)

// CheckUpgrade says why Talos cannot go from one of its releases to another, by Talos' own rule.
func CheckUpgrade(from, to string) error {
	have, err := compatibility.ParseTalosVersion(&api.VersionInfo{Tag: from})
	if err != nil {
		return fmt.Errorf("Talos %q: %w", from, err)
	}
	want, err := compatibility.ParseTalosVersion(&api.VersionInfo{Tag: to})
	if err != nil {
		return fmt.Errorf("Talos %q: %w", to, err)
	}
	return want.UpgradeableFrom(have)
}

// schematic is what the factory says in each of its images, as an extension that has nothing else
// (internal/artifacts/schematic.go of siderolabs/image-factory).
func schematic(ctx context.Context, c *client.Client) (string, error) {
	all, err := safe.StateList[*talosruntime.ExtensionStatus](ctx, c.COSI, talosruntime.NewExtensionStatus(talosruntime.NamespaceName, "").Metadata())
	if err != nil {
		return "", err
	}
	for one := range all.All() {
		if of := one.TypedSpec().Metadata; of.Name == "schematic" {
			return of.ExtraInfo, nil
		}
	}
	return "", nil
}

// Upgrade asks for another version of Talos, from an image of the installer. The machine fetches it before it answers; then it
// stops its services, installs it and restarts. What it has stays. A server whose etcd would not survive refuses
// (internal/app/machined/internal/server/v1alpha1/v1alpha1_server.go, Upgrade).
func (m *Machine) Upgrade(ctx context.Context, installer string) error {
	return m.with(ctx, "install "+installer, func(c *client.Client) error {
		_, err := c.MachineClient.Upgrade(ctx, &api.UpgradeRequest{Image: installer}) //nolint:staticcheck // its successor leaves the image, the check of etcd and the restart to the caller
		if status.Code(err) == codes.Unavailable && ctx.Err() == nil {                // it may have begun
			return nil
		}
		return err
	})
}

// SetControlPlane gives the control plane of a server a version of Kubernetes, v1.36.2, and leaves its kubelet as it is: no
// kubelet may be newer than an API server, and it asks any of them. It returns what is missing, so that it is called again; "": nothing.
func (m *Machine) SetControlPlane(ctx context.Context, version string) (waits string, err error) {
	seen, err := m.Observe(ctx)
	if err != nil || seen.Waits != "" {
		return seen.Waits, err
	}
	if !seen.Configured {
		return "", nil // it gets its version with its configuration
	}
	want, err := withControlPlane(seen, version)
	if err != nil {
		return "", fmt.Errorf("%s: its configuration: %w", m.Name, err)
	}
	if !want.IsZero() {
		return m.Name + " takes the configuration of its control plane", m.Apply(ctx, want)
	}
	err = m.with(ctx, "look at its control plane", func(c *client.Client) error {
		waits, err = unready(ctx, c, version)
		return err
	})
	if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		return m.Name + ": " + errAway.Error(), nil
	}
	return waits, err
}

// withControlPlane is the machine's configuration with another version of its control plane; zero: it has that.
func withControlPlane(s State, version string) (secret.Value, error) {
	changed := false
	set := func(image *string, name string) {
		if want := name + ":" + version; *image != want {
			*image, changed = want, true
		}
	}
	out, err := s.read.PatchV1Alpha1(func(c *v1alpha1.Config) error {
		if c.ClusterConfig.APIServerConfig == nil || c.ClusterConfig.ControllerManagerConfig == nil || c.ClusterConfig.SchedulerConfig == nil {
			return errors.New("it names no images of a control plane")
		}
		set(&c.ClusterConfig.APIServerConfig.ContainerImage, constants.KubernetesAPIServerImage)
		set(&c.ClusterConfig.ControllerManagerConfig.ContainerImage, constants.KubernetesControllerManagerImage)
		set(&c.ClusterConfig.SchedulerConfig.ContainerImage, constants.KubernetesSchedulerImage)
		return nil
	})
	if err != nil || !changed {
		return secret.Value{}, err
	}
	text, err := out.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
	return secret.New(string(text)), err
}

// unready says which static pod of the server does not run in a version yet.
func unready(ctx context.Context, c *client.Client, version string) (string, error) {
	all, err := safe.StateList[*k8s.StaticPodStatus](ctx, c.COSI, k8s.NewStaticPodStatus(k8s.NamespaceName, "").Metadata())
	if err != nil {
		return "", err
	}
	ready := map[string]bool{}
	for one := range all.All() {
		var s corev1.PodStatus
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.TypedSpec().PodStatus, &s); err != nil {
			return "", fmt.Errorf("%s: %w", one.Metadata().ID(), err)
		}
		runs := slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		for _, of := range s.ContainerStatuses {
			ready[of.Name] = runs && strings.HasSuffix(of.Image, ":"+version)
		}
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if !ready[name] {
			return name + " does not run in " + version + " yet", nil
		}
	}
	return "", nil
}

// Snapshot writes one of the server's etcd (talosctl etcd snapshot).
func (m *Machine) Snapshot(ctx context.Context, to io.Writer) error {
	return m.with(ctx, "save etcd", func(c *client.Client) error {
		from, err := c.EtcdSnapshot(ctx, &api.EtcdSnapshotRequest{})
		if err != nil {
			return err
		}
		_, err = io.Copy(to, from)
		return errors.Join(err, from.Close())
	})
}
