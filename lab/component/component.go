package component

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"

	"github.com/cps-gpu/homelab/lab/component/name"
)

// endWithParent ends this process when the lab is no longer its parent.
func endWithParent(ctx context.Context, lab string) {
	pid, err := strconv.Atoi(lab)
	if err != nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for os.Getppid() == pid {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// Run runs the component that args[0] names with the rest of args, and returns its exit
// status. The second result is false if args[0] names none. Run ends with the component, or on
// SIGTERM and SIGINT.
func Run(ctx context.Context, args []string) (status int, known bool) {
	if len(args) == 0 {
		return 0, false
	}
	mains := map[string]func() int{
		name.Etcd:              func() int { return runEtcd(ctx) },
		name.APIServer:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		name.ControllerManager: func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		name.Scheduler:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		name.KWOK:              func() int { return runKWOK(ctx) },
		name.Kubectl:           func() int { return cli.Run(cmd.NewDefaultKubectlCommand()) },
	}
	main, known := mains[args[0]]
	if !known {
		return 0, false
	}
	os.Args = args // each of them reads its flags from there
	go endWithParent(ctx, os.Getenv(name.ParentEnv))
	return main(), true
}

// runKWOK does what KWOK's own main does, which adds logging and configuration flags to the
// command's.
func runKWOK(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	// Kubernetes adds another kind of --version to all flags.
	pflag.CommandLine = pflag.NewFlagSet(name.KWOK, pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		return failed(name.KWOK, err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return execute(ctx, command)
}

func execute(ctx context.Context, command *cobra.Command) int {
	if err := command.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return failed(command.Name(), err)
	}
	return 0
}

func failed(component string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", component, err)
	return 1
}
