"""The backend that calls numpy: always there, and what others are compared with."""
