//go:build node

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newCrictl is crictl ps, exec and stop with the flags that our scripts use, and no other: cri-tools' own takes as long
// to compile as everything else here. Cri-tools v1.34 was seen to understand the same.
func newCrictl() *cobra.Command {
	root := &cobra.Command{Use: "crictl", SilenceUsage: true}
	endpoint := root.PersistentFlags().String("runtime-endpoint", "", "the runtime's socket")
	call := func(do func(context.Context, cri.RuntimeServiceClient, io.Writer, []string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			conn, err := grpc.NewClient(*endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			return do(c.Context(), cri.NewRuntimeServiceClient(conn), c.OutOrStdout(), args)
		}
	}
	var label string
	ps := &cobra.Command{Use: "ps", Args: cobra.NoArgs, RunE: call(func(ctx context.Context, r cri.RuntimeServiceClient, out io.Writer, _ []string) error {
		return list(ctx, r, out, label)
	})}
	ps.Flags().Bool("quiet", false, "print IDs only")
	ps.Flags().StringVar(&label, "label", "", "KEY=VALUE of the containers")
	var patience int64
	stop := &cobra.Command{Use: "stop", Args: cobra.ExactArgs(1), RunE: call(func(ctx context.Context, r cri.RuntimeServiceClient, _ io.Writer, args []string) error {
		_, err := r.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: args[0], Timeout: patience})
		return err
	})}
	stop.Flags().Int64Var(&patience, "timeout", 0, "seconds until it is killed")
	exec := &cobra.Command{Use: "exec", Args: cobra.MinimumNArgs(2), RunE: call(execute)}
	exec.Flags().SetInterspersed(false)
	root.AddCommand(ps, stop, exec)
	return root
}

func list(ctx context.Context, r cri.RuntimeServiceClient, out io.Writer, label string) error {
	key, value, _ := strings.Cut(label, "=")
	filter := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}, LabelSelector: map[string]string{key: value}}
	all, err := r.ListContainers(ctx, &cri.ListContainersRequest{Filter: filter})
	if err != nil {
		return err
	}
	for _, c := range all.Containers {
		fmt.Fprintln(out, c.Id)
	}
	return nil
}

func execute(ctx context.Context, r cri.RuntimeServiceClient, out io.Writer, args []string) error {
	const most = 2 * time.Minute
	done, err := r.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: args[0], Cmd: args[1:], Timeout: int64(most.Seconds())})
	if err != nil {
		return err
	}
	_, toOut := out.Write(done.Stdout)
	_, toErr := os.Stderr.Write(done.Stderr)
	if done.ExitCode != 0 {
		return fmt.Errorf("command terminated with exit code %d", done.ExitCode)
	}
	return errors.Join(toOut, toErr)
}
