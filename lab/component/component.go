package component

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
)

// The names under which components are called.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
	Kubectl           = "kubectl"
)

// Run runs the component that args[0] names with the rest of args, and returns
// its exit status. The second result is false when args[0] names none. It ends
// when the component does, or on SIGTERM and SIGINT.
func Run(args []string) (status int, known bool) {
	if len(args) == 0 {
		return 0, false
	}
	mains := map[string]func() int{
		Etcd:              runEtcd,
		APIServer:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		ControllerManager: func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		Scheduler:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		KWOK:              runKWOK,
		Kubectl:           func() int { return cli.Run(cmd.NewDefaultKubectlCommand()) },
	}
	main, known := mains[args[0]]
	if !known {
		return 0, false
	}
	os.Args = args // each of them reads its flags from there
	return main(), true
}

// runKWOK is what KWOK's own main does: it has its logging and configuration
// flags beside the command's.
func runKWOK() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// Kubernetes has put a --version of another kind among everybody's flags.
	pflag.CommandLine = pflag.NewFlagSet(KWOK, pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		return failed(KWOK, err)
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

func failed(name string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return 1
}
