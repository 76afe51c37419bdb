! Coarrays over OpenCoarrays: puts, gets, collectives and events of all images.
program coarrays
  use, intrinsic :: iso_fortran_env, only: event_type
  implicit none
  integer :: mine[*], me, images, next, total, image
  real :: row(3)[*]
  type(event_type) :: told[*]
  logical :: right

  me = this_image()
  images = num_images()
  next = merge(1, me + 1, me == images)
  mine = me
  sync all
  row(:)[next] = real(me)
  sync all
  right = all(row == real(merge(images, me - 1, me == 1)))
  total = 0
  do image = 1, images
    total = total + mine[image]
  end do
  right = right .and. total == images * (images + 1) / 2
  total = me
  call co_sum(total)
  right = right .and. total == images * (images + 1) / 2
  event post (told[next])
  event wait (told)
  print '(a,i0,a,i0,a)', 'rank ', me - 1, ' of ', images, merge(': right', ': wrong', right)
end program
