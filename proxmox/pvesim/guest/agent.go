package guest

// ExecStatus is what the guest agent knows of a command that it started.
type ExecStatus struct {
	Exited   bool
	ExitCode int
	Signal   int
	Out, Err []byte
}
