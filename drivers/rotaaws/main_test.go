package rotaaws

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// instanceEnv makes this binary an instance: a process that sleeps until SIGTERM, or until
// the test that started it is gone.
const instanceEnv = "ROTAAWS_INSTANCE"

func TestMain(m *testing.M) {
	if os.Getenv(instanceEnv) == "" {
		// Nothing of the machine's own AWS counts here.
		for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
			"AWS_ENDPOINT_URL", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
			os.Unsetenv(name)
		}
		os.Setenv("AWS_CONFIG_FILE", os.DevNull)
		os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
		os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		os.Exit(m.Run())
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("up")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	<-asked
	os.Exit(0)
}

// An instance is a process, or something that ends like one.
type instance struct {
	id        string
	state     string // of its lifecycle
	protected bool
	weight    string
	ask       func()        // asks it to end
	kill      func()        // ends it
	code      int           // its exit code, once it is gone
	gone      chan struct{} // closed when it has ended
}

// launch starts a process, and calls changed when it is up and when it has ended.
func launch(t *testing.T, id string, changed func(i *instance, state string)) *instance {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), instanceEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
	}
	i := &instance{id: id, state: "Pending", gone: make(chan struct{}),
		ask: func() { cmd.Process.Signal(syscall.SIGTERM) }, kill: func() { cmd.Process.Kill() }}
	go func() {
		defer in.Close()
		if line, _ := bufio.NewReader(out).ReadString('\n'); line == "up\n" {
			changed(i, "InService")
		}
		cmd.Wait()
		i.code = cmd.ProcessState.ExitCode()
		close(i.gone)
		changed(i, "Terminated")
	}()
	return i
}
