//go:build !linux

package servers

import "errors"

const supported = false

// On other systems the Find functions find nothing, so nothing gets here.
var errSystem = errors.New("on Linux only")

func (p *process) fork() error      { return errSystem }
func (p *process) terminate() error { return errSystem }
func (p *process) freeze() error    { return errSystem }
func (p *process) thaw() error      { return errSystem }
func (p *process) killGroup()       {}
