package targets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AddCommands gives a program all verbs as commands: cluster:up is `cluster up`. Their errors are of type [Error],
// or about the command line.
func AddCommands(root *cobra.Command) {
	nounsOf := map[string]*cobra.Command{}
	for _, v := range Verbs() {
		noun, name, _ := strings.Cut(v.Name, ":")
		c := nounsOf[noun]
		if c == nil {
			c = &cobra.Command{Use: noun, Short: nouns()[noun], RunE: needsVerb, GroupID: v.Group, SuggestionsMinimumDistance: 2}
			nounsOf[noun] = c
			if !root.ContainsGroup(v.Group) {
				root.AddGroup(&cobra.Group{ID: v.Group, Title: v.Group + ":"})
			}
			root.AddCommand(c)
		}
		c.AddCommand(v.command(name))
	}
}

// nouns says what the commands are about.
func nouns() map[string]string {
	return map[string]string{
		"cluster": "the cluster of cluster.yaml: create, change, look, back up", "gpu": "list and verify GPUs",
		"node": "one machine of the cluster", "template": "what the machines are cloned from", "k3s": "the Kubernetes of the cluster",
		"backup": "look into backups", "platform": "the services on top of Kubernetes", "hub": "JupyterHub",
		"images": "container images: list and copy", "model": "language models: list, verify, use of keys", "fleet": "GitOps by Rancher Fleet", "host": "prepare and check Proxmox VE hosts", "lab": "simulated hosts, to try everything",
	}
}

func (v Verb) command(name string) *cobra.Command {
	c := &cobra.Command{Use: name, Short: v.summary(), Long: v.Name + " " + v.Doc, Args: cobra.NoArgs, SilenceUsage: true}
	f := v.flagSet()
	c.Flags().AddFlagSet(f)
	c.SetUsageFunc(func(c *cobra.Command) error {
		fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s\n\nFlags:\n%s", c.UseLine(), v.flagLines("--", " "))
		return nil
	})
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return v.explain(err) })
	c.RunE = func(c *cobra.Command, _ []string) error { return v.run(c.Context(), setFlags(c.Flags())) }
	return c
}

// needsVerb says which commands a noun has.
func needsVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%s has no command %q: did you mean %s?", c.CommandPath(), args[0], strings.Join(like, " or "))
	}
	return fmt.Errorf("%s has no command %q: %s -h lists them", c.CommandPath(), args[0], c.CommandPath())
}

// Execute runs a program's command line, and returns its exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	ctx, stop := interruptible(ctx)
	defer stop()
	root.SilenceErrors, root.SilenceUsage = true, true
	if len(args) > 0 { // the name of the target is the same command
		if noun, name, ok := strings.Cut(args[0], ":"); ok {
			args = append([]string{noun, name}, args[1:]...)
		}
	}
	root.SetArgs(twoDashes(args))
	err := root.ExecuteContext(ctx)
	if e := new(Error); err == nil || errors.As(err, &e) {
		return printError(err)
	}
	fmt.Fprintln(os.Stderr, strings.TrimSpace(err.Error()))
	return 3
}

// interruptible is a context that ends at the first Ctrl-C, so that a run ends in order; the second one ends the program.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// twoDashes lets a flag begin with one dash too, as Mage's do; no flag but -h has one letter.
func twoDashes(args []string) []string {
	out := slices.Clone(args)
	for i, word := range out {
		if word == "--" {
			break
		}
		if len(word) > 2 && word[0] == '-' && word[1] != '-' && word[2] != '=' {
			out[i] = "-" + word
		}
	}
	return out
}

// flagSet are the flags of a verb.
func (v Verb) flagSet() *pflag.FlagSet {
	f := pflag.NewFlagSet(v.Name, pflag.ContinueOnError)
	for _, flag := range v.Flags {
		switch flag.Zero.(type) {
		case bool:
			f.Bool(flag.Name, false, flag.Help)
		case int:
			f.Int(flag.Name, 0, flag.Help)
		case time.Duration:
			f.Duration(flag.Name, 0, flag.Help)
		default:
			f.String(flag.Name, "", flag.Help)
		}
	}
	return f
}

// setFlags are the values of the flags that were written.
func setFlags(f *pflag.FlagSet) map[string]any {
	out := map[string]any{}
	f.Visit(func(flag *pflag.Flag) {
		var value any = flag.Value.String()
		var err error
		switch flag.Value.Type() {
		case "bool":
			value, err = f.GetBool(flag.Name)
		case "int":
			value, err = f.GetInt(flag.Name)
		case "duration":
			value, err = f.GetDuration(flag.Name)
		}
		if err == nil { // it was parsed
			out[flag.Name] = value
		}
	})
	return out
}

// help describes a verb as a Mage target, with a line for each of its flags.
func (v Verb) help() string {
	if len(v.Flags) == 0 {
		return v.Name + ": " + v.Doc + "\n"
	}
	return v.Name + ": " + v.Doc + "\n\n" + v.flagLines("-", "=")
}

// flagLines are the flags, a line each: dashes, name, and the value after the sign.
func (v Verb) flagLines(dashes, sign string) string {
	var b strings.Builder
	lines := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range v.Flags {
		value := f.Value
		if value != "" {
			value = sign + value
		}
		fmt.Fprintf(lines, "  %s%s%s\t%s\n", dashes, f.Name, value, f.Help)
	}
	_ = lines.Flush() // a Builder accepts everything
	return b.String()
}
