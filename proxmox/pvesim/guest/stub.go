package guest

import "context"

type pkg struct{ version string }
type system struct{}
type cluster struct{}

func (*cluster) close() {}
func NewBase(release string) *Disk { return NewDisk() }
func (m *Machine) Boot(ctx context.Context) error { return nil }
func (m *Machine) Shutdown() error { return nil }
func (m *Machine) Kill() {}
func (m *Machine) Destroy() {}
func (m *Machine) AgentUp() bool { return false }
func (m *Machine) AgentExec(argv []string, input []byte) (int, error) { return 0, ErrOff }
func (m *Machine) AgentStatus(pid int) (ExecStatus, error) { return ExecStatus{}, ErrOff }
func (m *Machine) AgentReadFile(name string) ([]byte, error) { return nil, ErrOff }
func (m *Machine) AgentWriteFile(name string, data []byte) error { return ErrOff }
func (m *Machine) AgentInterfaces() ([]Interface, error) { return nil, ErrOff }
type user struct { uid, gid int; gids []int }
