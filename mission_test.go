package rota_test

import "testing"

// The rows of docs/MISSION.md that a scenario tells, shown by whole members: the
// same files that the bare core plays.

func TestS0_02_ByWholeMembers(t *testing.T)    { playAll(t, "s0-02") }
func TestS0_03_ByWholeMembers(t *testing.T)    { playAll(t, "s0-03") }
func TestS0_04_ByWholeMembers(t *testing.T)    { playAll(t, "s0-04") }
func TestS0_05_ByWholeMembers(t *testing.T)    { playAll(t, "s0-05") }
func TestS0_06_ByWholeMembers(t *testing.T)    { playAll(t, "s0-06") }
func TestS0_07_ByWholeMembers(t *testing.T)    { playAll(t, "s0-07") }
func TestS0_08_ByWholeMembers(t *testing.T)    { playAll(t, "s0-08") }
func TestS0_09_ByWholeMembers(t *testing.T)    { playAll(t, "s0-09") }
func TestS0_10_ByWholeMembers(t *testing.T)    { playAll(t, "s0-10") }
func TestS0_12_ByWholeMembers(t *testing.T)    { playAll(t, "s0-12") }
func TestS0_13b_ByWholeMembers(t *testing.T)   { playAll(t, "s2-join") }
func TestS2_Join_ByWholeMembers(t *testing.T)  { playAll(t, "s2-join") }
func TestS2_Leave_ByWholeMembers(t *testing.T) { playAll(t, "s2-leave") }
func TestS2_Kill_ByWholeMembers(t *testing.T)  { playAll(t, "s2-kill") }
func TestS2_Guard_ByWholeMembers(t *testing.T) { playAll(t, "s2-guard") }
func TestB_Static_ByWholeMembers(t *testing.T) { playAll(t, "return") }
