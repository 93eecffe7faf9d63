// Package rotaaws lets a group of rota live on Amazon EC2: a Scaler changes the size of an
// Auto Scaling group, InstanceID tells a member where it runs, and CloudWatch publishes
// metrics.
//
// What it does not promise: AWS compares and sets nothing, so anything else that changes the
// desired capacity of the group works against the Scaler, which itself never lowers the
// capacity but by ending the instance of a member that owns nothing, and protects all
// others from scale-in. Its tests speak the protocol of AWS with a server of their own:
// they show what is called and when, not how AWS behaves.
//
// Credentials and the region are found as the AWS SDK finds them: environment, shared
// files, the role of the instance. docs/scalers/aws.md lists the rights that they need.
package rotaaws
