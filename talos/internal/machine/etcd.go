package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cps-gpu/homelab/secret"
)

// markKey is the annotation of a Node, in the configuration of its machine, that says what is restored there. A wiped machine
// keeps its configuration.
const markKey = "homelab/restoring"

// Mark writes on a server what is restored there; "": no longer anything. The rest of its configuration stays.
func (m *Machine) Mark(ctx context.Context, seen State, what string) error {
	if seen.Restoring() == what {
		return nil
	}
	out, err := seen.read.PatchV1Alpha1(func(c *v1alpha1.Config) error {
		all := maps.Clone(c.MachineConfig.MachineNodeAnnotations)
		if all == nil {
			all = map[string]string{}
		}
		if all[markKey] = what; what == "" {
			delete(all, markKey)
		}
		if c.MachineConfig.MachineNodeAnnotations = all; len(all) == 0 {
			c.MachineConfig.MachineNodeAnnotations = nil
		}
		return nil
	})
	var text []byte
	if err == nil {
		text, err = out.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
	}
	if err != nil {
		return fmt.Errorf("%s: its configuration: %w", m.Name, err)
	}
	return m.Apply(ctx, secret.New(string(text)))
}

// Restoring is what Mark has written.
func (s State) Restoring() string {
	if s.read == nil {
		return ""
	}
	return s.read.Machine().NodeAnnotations()[markKey]
}

// Boot identifies the present start of the machine.
func (m *Machine) Boot(ctx context.Context) (id string, err error) {
	err = m.with(ctx, "read the number of its start", func(c *client.Client) error {
		from, err := c.Read(ctx, "/proc/sys/kernel/random/boot_id")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(from)
		id = strings.TrimSpace(string(text))
		return errors.Join(err, from.Close())
	})
	return id, err
}

// IsAway reports whether an error means that a machine does not answer, and will.
func IsAway(err error) bool {
	code := status.Code(err)
	return errors.Is(err, errAway) || errors.Is(err, ErrNotYet) || code == codes.Unavailable || code == codes.DeadlineExceeded
}

// Wipe takes etcd and everything else from the server's own disk but its configuration, and restarts it. It answers before that
// has begun. etcd is not told (talosctl reset --graceful=false --reboot --system-labels-to-wipe=EPHEMERAL).
func (m *Machine) Wipe(ctx context.Context) error {
	return m.with(ctx, "wipe etcd", func(c *client.Client) error {
		err := c.ResetGeneric(ctx, &api.ResetRequest{Reboot: true, SystemPartitionsToWipe: []*api.ResetPartitionSpec{{Label: constants.EphemeralPartitionLabel, Wipe: true}}})
		if status.Code(err) == codes.Unavailable && ctx.Err() == nil { // it may have begun
			return nil
		}
		return err
	})
}

// TakesSnapshot says with [ErrNotYet] that SendSnapshot would come too early: the disk is not there yet. The empty file
// that is left is the one that SendSnapshot writes.
func (m *Machine) TakesSnapshot(ctx context.Context) error {
	return m.SendSnapshot(ctx, new(bytes.Reader))
}

// SendSnapshot sends the snapshot that Recover begins with.
func (m *Machine) SendSnapshot(ctx context.Context, from io.Reader) error {
	return m.with(ctx, "send the snapshot", func(c *client.Client) error {
		_, err := c.EtcdRecover(ctx, from)
		if code := status.Code(err); code == codes.FailedPrecondition || code == codes.Unavailable {
			err = fmt.Errorf("%w: %w", ErrNotYet, err)
		}
		return err
	})
}

// ErrHasData means that a server has data of etcd, so it begins nothing.
var ErrHasData = errors.New("its etcd has data")

// Recover begins the cluster on this server with the snapshot that was sent, whose checksum it compares. It is as [Machine.Bootstrap]
// else, and says [ErrHasData] also if an earlier request had begun it.
func (m *Machine) Recover(ctx context.Context) error {
	return m.with(ctx, "begin the cluster with the snapshot", func(c *client.Client) error {
		err := c.Bootstrap(ctx, &api.BootstrapRequest{RecoverEtcd: true})
		switch status.Code(err) {
		case codes.AlreadyExists:
			return fmt.Errorf("%w: %w", ErrHasData, err)
		case codes.FailedPrecondition:
			return fmt.Errorf("%w: %w", ErrNotYet, err)
		}
		return err
	})
}

// Members are the host names of the members of the server's etcd.
func (m *Machine) Members(ctx context.Context) (out []string, err error) {
	err = m.with(ctx, "list the members of etcd", func(c *client.Client) error {
		all, err := c.EtcdMemberList(ctx, &api.EtcdMemberListRequest{})
		if err != nil {
			return err
		}
		for _, of := range all.GetMessages()[0].GetMembers() {
			out = append(out, of.GetHostname())
		}
		return nil
	})
	return out, err
}
