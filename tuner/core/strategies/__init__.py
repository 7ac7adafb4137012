"""The strategies that the race is compared with, and the full grid."""
